// A replica that is lost after its last word: preloaded (ld.so(8), LD_PRELOAD), it kills the process as that exits. The first replica
// of TRAINYARD_LOST, a list such as "worker-0,worker-1", that creates the file TRAINYARD_LOST_MARK is lost, and none after it.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((destructor)) static void LoseOne(void) {
  const char* role = getenv("TRAINYARD_ROLE");
  const char* index = getenv("TRAINYARD_INDEX");
  const char* lost = getenv("TRAINYARD_LOST");
  const char* mark = getenv("TRAINYARD_LOST_MARK");
  if (role == NULL || index == NULL || lost == NULL || mark == NULL) return;
  char name[64];
  snprintf(name, sizeof(name), "%s-%s", role, index);
  if (strstr(lost, name) == NULL) return;
  if (open(mark, O_CREAT | O_EXCL | O_WRONLY, 0600) >= 0) kill(getpid(), SIGKILL);
}
