// The first process of every pod of the tests: keeps the pod's namespaces alive, reaps orphans, ends on a signal.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void End(int number) { _exit(0); }

static void Reap(int number) {
  while (waitpid(-1, 0, WNOHANG) > 0) {
  }
}

int main(void) {
  signal(SIGTERM, End);
  signal(SIGINT, End);
  signal(SIGCHLD, Reap);
  for (;;) pause();
}
