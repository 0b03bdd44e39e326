// The mark of functions that run on the device too. Each compiles for this machine as well: the
// host tests call them by plain loops.
#pragma once

#ifdef __CUDACC__
#define TY_DEVICE __host__ __device__
#else
#define TY_DEVICE
#endif
