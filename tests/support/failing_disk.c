/* Makes calls on the files of one folder fail, or ends the process at one of them.

Loaded by LD_PRELOAD; does nothing until `failing_disk` is called. Calls that change files are
counted, those of other folders are not. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OFF, COUNT, FAIL_FROM, FAIL_ONCE, FAIL_AFTER_BYTES, KILL };
enum { WRITE = 1, SYNC = 2, RENAME = 4, CREATE = 8, MAKE = 16, REMOVE = 32, TRUNCATE = 64 };

static char folder[PATH_MAX];
static int how = OFF, code = EIO, kinds = 0;
static long limit = 0;
static atomic_long calls = 0, bytes = 0, failures = 0;

/* Begins to count; `at` is the number of the call, from 0, or of bytes that can be written. */
void failing_disk(const char *place, int mode, int of, long at, int error) {
    snprintf(folder, sizeof folder, "%s", place);
    kinds = of;
    limit = at;
    code = error;
    calls = 0;
    bytes = 0;
    failures = 0;
    how = mode;
}

long failing_disk_calls(void) { return calls; }
long failing_disk_bytes(void) { return bytes; }
long failing_disk_failures(void) { return failures; }

static int is_inside(const char *path) {
    size_t length = strlen(folder);
    return !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

static int fd_inside(int fd) {
    char name[64], path[PATH_MAX];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(name, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_inside(path);
}

static int at_inside(int fd, const char *path) {
    if (path[0] == '/') return is_inside(path);
    if (fd != AT_FDCWD) return fd_inside(fd);
    char here[PATH_MAX];
    return getcwd(here, sizeof here) && is_inside(here);
}

/* Counts a call; returns whether it is to fail, with errno set. */
static int fails(int kind) {
    if (!(kinds & kind)) return 0;
    long number = atomic_fetch_add(&calls, 1);
    if (how == KILL && number == limit) {
        kill(getpid(), SIGKILL);
        for (;;) pause();
    }
    if ((how == FAIL_FROM && number >= limit) || (how == FAIL_ONCE && number == limit)) {
        atomic_fetch_add(&failures, 1);
        errno = code;
        return 1;
    }
    return 0;
}

/* Returns how many of so many bytes can be written; -1 for none, with errno set. */
static ssize_t room(int fd, size_t wanted) {
    if (how == OFF || !fd_inside(fd)) return (ssize_t)wanted;
    if (fails(WRITE)) return -1;
    long before = atomic_fetch_add(&bytes, (long)wanted);
    if (how != FAIL_AFTER_BYTES || before + (long)wanted <= limit) return (ssize_t)wanted;
    atomic_fetch_add(&failures, 1);
    if (before < limit) return limit - before; /* a short write, as of a disk that gets full */
    errno = code;
    return -1;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *from, size_t n) {
    REAL(write);
    ssize_t allowed = room(fd, n);
    return allowed < 0 ? -1 : real(fd, from, (size_t)allowed);
}

ssize_t pwrite(int fd, const void *from, size_t n, off_t at) {
    REAL(pwrite);
    ssize_t allowed = room(fd, n);
    return allowed < 0 ? -1 : real(fd, from, (size_t)allowed, at);
}

ssize_t pwrite64(int fd, const void *from, size_t n, off64_t at) {
    REAL(pwrite64);
    ssize_t allowed = room(fd, n);
    return allowed < 0 ? -1 : real(fd, from, (size_t)allowed, at);
}

ssize_t writev(int fd, const struct iovec *parts, int n) {
    REAL(writev);
    size_t wanted = 0;
    for (int i = 0; i < n; i++) wanted += parts[i].iov_len;
    ssize_t allowed = room(fd, wanted);
    if (allowed < 0) return -1;
    return allowed < (ssize_t)wanted ? real(fd, parts, 0) : real(fd, parts, n);
}

int fsync(int fd) {
    REAL(fsync);
    return how != OFF && fd_inside(fd) && fails(SYNC) ? -1 : real(fd);
}

int fdatasync(int fd) {
    REAL(fdatasync);
    return how != OFF && fd_inside(fd) && fails(SYNC) ? -1 : real(fd);
}

int ftruncate(int fd, off_t n) {
    REAL(ftruncate);
    return how != OFF && fd_inside(fd) && fails(TRUNCATE) ? -1 : real(fd, n);
}

int ftruncate64(int fd, off64_t n) {
    REAL(ftruncate64);
    return how != OFF && fd_inside(fd) && fails(TRUNCATE) ? -1 : real(fd, n);
}

int rename(const char *from, const char *to) {
    REAL(rename);
    return how != OFF && at_inside(AT_FDCWD, to) && fails(RENAME) ? -1 : real(from, to);
}

int renameat(int a, const char *from, int b, const char *to) {
    REAL(renameat);
    return how != OFF && at_inside(b, to) && fails(RENAME) ? -1 : real(a, from, b, to);
}

int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
    REAL(renameat2);
    return how != OFF && at_inside(b, to) && fails(RENAME) ? -1 : real(a, from, b, to, flags);
}

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    return how != OFF && at_inside(AT_FDCWD, path) && fails(MAKE) ? -1 : real(path, mode);
}

int unlink(const char *path) {
    REAL(unlink);
    return how != OFF && at_inside(AT_FDCWD, path) && fails(REMOVE) ? -1 : real(path);
}

int unlinkat(int fd, const char *path, int flags) {
    REAL(unlinkat);
    return how != OFF && at_inside(fd, path) && fails(REMOVE) ? -1 : real(fd, path, flags);
}

int rmdir(const char *path) {
    REAL(rmdir);
    return how != OFF && at_inside(AT_FDCWD, path) && fails(REMOVE) ? -1 : real(path);
}

static int open_fails(int fd, const char *path, int flags) {
    int changes = flags & (O_CREAT | O_WRONLY | O_RDWR | O_TRUNC);
    return how != OFF && changes && at_inside(fd, path) && fails(CREATE);
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *path, int flags, ...) {
    REAL(open);
    MODE(flags)
    return open_fails(AT_FDCWD, path, flags) ? -1 : real(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    REAL(open64);
    MODE(flags)
    return open_fails(AT_FDCWD, path, flags) ? -1 : real(path, flags, mode);
}

int openat(int fd, const char *path, int flags, ...) {
    REAL(openat);
    MODE(flags)
    return open_fails(fd, path, flags) ? -1 : real(fd, path, flags, mode);
}

int openat64(int fd, const char *path, int flags, ...) {
    REAL(openat64);
    MODE(flags)
    return open_fails(fd, path, flags) ? -1 : real(fd, path, flags, mode);
}
