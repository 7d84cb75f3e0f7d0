/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/job.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 200 }; /* how often take() tries, with a wait of 1 ms each time */

/* Did a launcher start this process as one of several ranks? */
static bool is_rank(void)
{
    static const char *const variable[] = {"OMPI_COMM_WORLD_LOCAL_RANK",
                                           "PMIX_RANK",
                                           "PMI_RANK",
                                           "MPI_LOCALRANKID",
                                           "MV2_COMM_WORLD_LOCAL_RANK",
                                           "SLURM_PROCID",
                                           "PALS_LOCAL_RANKID",
                                           "LOCAL_RANK"}; /* set by torchrun */

    for (size_t i = 0; i < sizeof variable / sizeof *variable; i++)
        if (getenv(variable[i]))
            return true;
    return false;
}

/* Return when our parent started, in ticks since the boot of the box; 0 if that is not known. */
static unsigned long long parent_began(void)
{
    char name[40], text[1024], *at;
    unsigned long long ticks = 0;
    FILE *file;
    size_t n;

    snprintf(name, sizeof name, "/proc/%d/stat", (int)getppid());
    if (!(file = fopen(name, "re")))
        return 0;
    n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    at = strrchr(text, ')'); /* the end of the program's name, which is field 2 */
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (at)
        sscanf(at, "%llu", &ticks);
    return ticks;
}

/* Return number ${index} of the folders in which we try to make the job's file, or NULL if there
 * are no more. A relative TMPDIR does not count, because the program may change its working
 * folder. */
static const char *folder(int index)
{
    const char *temporary = getenv("TMPDIR");
    const char *const list[] = {
        "/dev/shm", temporary && *temporary == '/' ? temporary : "/tmp", "/tmp"};

    return index < 3 ? list[index] : NULL;
}

/*
 * The file of a job (job.h) has two locks, on its bytes MEMBER and LEAVING. Every `symtuner run`
 * that uses the file holds a read lock on MEMBER, so whoever gets a write lock on MEMBER knows that
 * nobody else uses the file. A `symtuner run` that ends tries to turn its read lock into a write
 * lock, to find out whether it is the last. fcntl does this in one step, without unlocking MEMBER
 * in between. Only one `symtuner run` at a time tries this, because it holds a write lock on
 * LEAVING meanwhile.
 */
enum { MEMBER, LEAVING };

static bool lock_byte(int fd, int byte, short type, bool waits)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

    while (fcntl(fd, waits ? F_OFD_SETLKW : F_OFD_SETLK, &range) != 0)
        if (errno != EINTR)
            return false;
    return true;
}

/* Remove the files in ${in} that runs of this user left behind when they were killed. */
static void sweep(const char *in)
{
    char pattern[ST_RUN_PATH];
    struct stat file;
    glob_t found;

    snprintf(pattern, sizeof pattern, "%.300s/symtuner-job-%u-*", in, (unsigned)geteuid());
    if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        int fd = open(found.gl_pathv[i], O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

        /* if st_nlink is 0, the opened file has been removed, and the path may name a newer file
         * that is in use */
        if (fd >= 0 && lock_byte(fd, MEMBER, F_WRLCK, false) && fstat(fd, &file) == 0 &&
            file.st_uid == geteuid() && S_ISREG(file.st_mode) && file.st_nlink > 0)
            unlink(found.gl_pathv[i]);
        if (fd >= 0)
            close(fd);
    }
    globfree(&found);
}

/* Open and lock the file of ${job}. Returns false if that fails or if the file was removed
 * meanwhile. */
static bool lock(struct st_run_job *job)
{
    struct stat file;

    job->lock = open(job->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (job->lock >= 0 && lock_byte(job->lock, MEMBER, F_RDLCK, true) &&
        fstat(job->lock, &file) == 0 && file.st_nlink > 0)
        return true;
    if (job->lock >= 0)
        close(job->lock);
    return false;
}

/* Is no other run using the file? If so, gets the write lock on MEMBER. First waits until no other
 * run wants this lock: if two wanted it at once, neither would get it, because each of them holds a
 * read lock. */
static bool is_last(const struct st_run_job *job)
{
    return !job->shared || (lock_byte(job->lock, LEAVING, F_WRLCK, true) &&
                            lock_byte(job->lock, MEMBER, F_WRLCK, false));
}

/* Make the file job->path, then lock and map it. If ranks share the file, another rank may have
 * made it already. */
static bool take(struct st_run_job *job, char error[ST_RUN_ERROR])
{
    for (int i = 0; i < TRIES; i++) {
        struct st_tally *made = st_tally_create(job->path, error, ST_RUN_ERROR);
        bool fails;

        if (!made && errno != EEXIST)
            return false;
        st_tally_close(made);
        job->first = made != NULL;
        /* Map the file only after locking it: until then another run may remove the file, and a
         * third run may make a new one. */
        if ((made || job->shared) && lock(job)) {
            if ((job->tally = st_tally_open(job->path, error, ST_RUN_ERROR)))
                return true;
            /* Another rank that has just made the file may not have filled it yet, so try again. */
            fails = !job->shared || i == TRIES - 1;
            if (fails && is_last(job))
                unlink(job->path);
            close(job->lock);
            if (fails)
                return false;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return false;
}

bool st_run_job_begin(struct st_run_job *job, char error[ST_RUN_ERROR])
{
    const char *outer = getenv(ST_TALLY_VARIABLE), *in;
    struct timespec now;

    *job = (struct st_run_job){.lock = -1};
    if (outer && (job->tally = st_tally_open(outer, error, ST_RUN_ERROR))) {
        st_tally_close(job->tally);
        job->tally = NULL;
        error[0] = '\0';
        return false;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    job->shared = is_rank();
    for (int i = 0; (in = folder(i)); i++) {
        sweep(in);
        if (job->shared)
            snprintf(job->path, sizeof job->path, "%.300s/symtuner-job-%u-of-%d-%llu", in,
                     (unsigned)geteuid(), (int)getppid(), parent_began());
        else
            snprintf(job->path, sizeof job->path, "%.300s/symtuner-job-%u-%d-%lld%09ld", in,
                     (unsigned)geteuid(), (int)getpid(), (long long)now.tv_sec, now.tv_nsec);
        if (take(job, error)) {
            error[0] = '\0'; /* ${error} may still say why an earlier folder failed */
            return true;
        }
    }
    return false;
}

void st_run_job_end(struct st_run_job *job,
                    void (*print)(const struct st_tally *tally, FILE *out))
{
    if (!job->tally)
        return;
    if (is_last(job)) {
        if (print)
            print(job->tally, stderr);
        unlink(job->path);
    }
    close(job->lock);
    st_tally_close(job->tally);
    job->tally = NULL;
}
