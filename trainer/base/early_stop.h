// SIGTERM before a program has set itself up to stop well.
#pragma once

namespace trainyard::engine {

// From now on SIGTERM ends this process at once with `exit_code`. The first process of a container
// needs it: Linux drops signals that such a process neither handles nor blocks, and the container
// would run until the end of its grace (pid_namespaces(7)).
void EndOnSigterm(int exit_code);

// From now on it is as it was, for who blocks the signal and waits for it.
void EndOnSigtermNoMore();

}  // namespace trainyard::engine
