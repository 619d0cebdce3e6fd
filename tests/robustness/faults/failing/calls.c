/* Lets the n-th call that writes, or that allocates, fail: loaded before the C library, so that Python, torch, Arrow and Rust
 * all meet it.
 *
 * A write is a call that makes or changes a regular file or a folder; those of standard error don't count. An allocation is a
 * block of at least a size that the caller chooses, or a mapping. Failures begin when `fail_at` has been called. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

enum { NOTHING, WRITES, ALLOCATIONS };
static atomic_int what = NOTHING, for_good = 0;
static atomic_long seen = 0, failing = 0;
static size_t least = 0;
static int reason = ENOSPC;

/* Count calls of a kind from now on; the `at`-th fails, and with `always` every later one too. A negative error is a signal that
 * ends the process there. */
void fail_at(int kind, long at, int error, int always, size_t smallest) {
    seen = 0;
    failing = at;
    reason = error;
    for_good = always;
    least = smallest;
    what = kind;
}

long calls_seen(void) {
    what = NOTHING;
    return seen;
}

static int fails(int kind) {
    if (what != kind)
        return 0;
    long number = ++seen;
    int ours = number == failing || (for_good && failing && number > failing);
    if (ours && reason < 0)
        kill(getpid(), -reason);
    return ours;
}

static int write_fails(int handle) {
    struct stat state;
    if (what != WRITES || handle == 2 || fstat(handle, &state) || !(S_ISREG(state.st_mode) || S_ISDIR(state.st_mode)))
        return 0;
    return fails(WRITES) ? (errno = reason, 1) : 0;
}

static int path_fails(void) { return fails(WRITES) ? (errno = reason, 1) : 0; }

ssize_t write(int handle, const void *bytes, size_t size) {
    return write_fails(handle) ? -1 : syscall(SYS_write, handle, bytes, size);
}
ssize_t pwrite64(int handle, const void *bytes, size_t size, off64_t at) {
    return write_fails(handle) ? -1 : syscall(SYS_pwrite64, handle, bytes, size, at);
}
ssize_t pwrite(int handle, const void *bytes, size_t size, off_t at) { return pwrite64(handle, bytes, size, at); }
int fsync(int handle) { return write_fails(handle) ? -1 : (int)syscall(SYS_fsync, handle); }
int ftruncate64(int handle, off64_t size) { return write_fails(handle) ? -1 : (int)syscall(SYS_ftruncate, handle, size); }
int ftruncate(int handle, off_t size) { return ftruncate64(handle, size); }
int fchmod(int handle, mode_t mode) { return write_fails(handle) ? -1 : (int)syscall(SYS_fchmod, handle, mode); }
int renameat(int from, const char *old, int to, const char *new) {
    return path_fails() ? -1 : (int)syscall(SYS_renameat2, from, old, to, new, 0);
}
int rename(const char *old, const char *new) { return renameat(AT_FDCWD, old, AT_FDCWD, new); }
int linkat(int from, const char *old, int to, const char *new, int flags) {
    return path_fails() ? -1 : (int)syscall(SYS_linkat, from, old, to, new, flags);
}
int link(const char *old, const char *new) { return linkat(AT_FDCWD, old, AT_FDCWD, new, 0); }
int mkdirat(int place, const char *path, mode_t mode) {
    return path_fails() ? -1 : (int)syscall(SYS_mkdirat, place, path, mode);
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
int unlinkat(int place, const char *path, int flags) { /* a disk that stays full lets files be removed */
    return !for_good && path_fails() ? -1 : (int)syscall(SYS_unlinkat, place, path, flags);
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

static int open_file(int place, const char *path, int flags, mode_t mode) {
    if ((flags & (O_WRONLY | O_RDWR | O_CREAT)) && path_fails())
        return -1;
    return (int)syscall(SYS_openat, place, path, flags, mode);
}
#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }
int open(const char *path, int flags, ...) { MODE(flags) return open_file(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return open_file(AT_FDCWD, path, flags, mode); }
int openat(int place, const char *path, int flags, ...) { MODE(flags) return open_file(place, path, flags, mode); }
int openat64(int place, const char *path, int flags, ...) { MODE(flags) return open_file(place, path, flags, mode); }

static int allocation_fails(size_t size) { return size >= least && fails(ALLOCATIONS) ? (errno = ENOMEM, 1) : 0; }

void *malloc(size_t size) { return allocation_fails(size) ? NULL : __libc_malloc(size); }
void *calloc(size_t number, size_t size) { return allocation_fails(number * size) ? NULL : __libc_calloc(number, size); }
void *realloc(void *block, size_t size) { return allocation_fails(size) ? NULL : __libc_realloc(block, size); }
int posix_memalign(void **block, size_t boundary, size_t size) {
    void *found = allocation_fails(size) ? NULL : __libc_memalign(boundary, size);
    if (!found)
        return ENOMEM;
    *block = found;
    return 0;
}
void *aligned_alloc(size_t boundary, size_t size) { return allocation_fails(size) ? NULL : __libc_memalign(boundary, size); }
void *mmap64(void *at, size_t size, int protection, int flags, int handle, off64_t offset) {
    if (allocation_fails(size))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, size, protection, flags, handle, offset);
}
void *mmap(void *at, size_t size, int protection, int flags, int handle, off_t offset) {
    return mmap64(at, size, protection, flags, handle, offset);
}
