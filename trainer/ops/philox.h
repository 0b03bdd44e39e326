// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel Random
// Numbers: As Easy as 1, 2, 3"). No state: an element's bits are a function of its place alone, on
// every backend and for any number of threads. Constexpr, so that nvcc lets kernels call it.
#pragma once

#include <array>
#include <cstdint>

namespace trainyard::engine {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

constexpr PhiloxCounter Philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// The random bits of one op in one step on one worker. Element f of sample n, f counted row-major
// within the sample, gets word f % 4 of Philox({f / 4, n, salt0, salt1}, key). Neighbouring samples
// have neighbouring counters, so samples in vector lanes need no shuffle.
struct PhiloxStream {
  PhiloxKey key;
  std::array<uint32_t, 2> salt;

  constexpr PhiloxStream(uint64_t seed, uint64_t step, uint32_t worker, uint32_t stream) {
    const PhiloxCounter derived = Philox({static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32), worker, stream},
                                         {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    key = {derived[0], derived[1]};
    salt = {derived[2], derived[3]};
  }
  // Words for elements 4 * quad .. 4 * quad + 3 of `sample`.
  constexpr PhiloxCounter Words(uint32_t sample, uint32_t quad) const { return Philox({quad, sample, salt[0], salt[1]}, key); }
};

// Dropout drops an element when its word is below this.
inline uint32_t DropThreshold(float rate) { return static_cast<uint32_t>(static_cast<double>(rate) * 4294967296.0); }

}  // namespace trainyard::engine
