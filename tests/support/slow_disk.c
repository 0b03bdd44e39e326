// A disk that takes TRAINYARD_SLOW_BYTES_A_SECOND below the folder TRAINYARD_SLOW_FOLDER: preloaded (ld.so(8), LD_PRELOAD), it stands between
// a program and write(2). Files elsewhere are as fast as ever.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int is_slow(int fd) {
  const char* const folder = getenv("TRAINYARD_SLOW_FOLDER");
  if (folder == NULL) return 0;
  char link[64];
  char path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = '\0';
  return strncmp(path, folder, strlen(folder)) == 0;
}

ssize_t write(int fd, const void* bytes, size_t count) {
  static ssize_t (*real)(int, const void*, size_t);
  if (real == NULL) real = (ssize_t(*)(int, const void*, size_t))dlsym(RTLD_NEXT, "write");
  if (!is_slow(fd)) return real(fd, bytes, count);
  const char* const rate = getenv("TRAINYARD_SLOW_BYTES_A_SECOND");
  const ssize_t written = real(fd, bytes, count);
  if (written > 0 && rate != NULL) {
    const double seconds = (double)written / atof(rate);
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) != 0) {
    }
  }
  return written;
}
