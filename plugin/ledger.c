/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/ledger.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/append.h"
#include "base/exit_lock.h"
#include "base/own_thread.h"
#include "plugin/ranks/agree.h"
#include "plugin/log.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct st_ledger *open_ledgers;

/* ---- text ----------------------------------------------------------------------------------- */

static void write_size(FILE *out, int coll, int bucket)
{
    fprintf(out, " coll=%s bytes=%llu..%llu", symtuner_coll_name(coll),
            bucket ? 1ull << bucket : 0ull, (2ull << bucket) - 1);
}

/* Does this collective have symmetric kernels? In every release the same three collectives do. */
static bool has_symmetric(int coll)
{
    return coll == SYMTUNER_ALLREDUCE || coll == SYMTUNER_ALLGATHER ||
           coll == SYMTUNER_REDUCESCATTER;
}

static void write_ran(FILE *out, const struct st_ledger *ledger, int coll, int bucket)
{
    uint64_t n[ST_RANS], total = 0;

    for (int r = 0; r < ST_RANS; r++)
        total += n[r] = st_ledger_read(&ledger->ran[coll][bucket][r]);
    if (total == 0)
        return;
    /* Up to NCCL 2.30 symmetric kernels have no event. So if a call outside graph capture has no
     * event of a general kernel or of the copy engine, it ran a symmetric kernel. That is not so
     * for Broadcast, which NCCL 2.29 and later may run as part of an AllGather, but Broadcast has
     * no symmetric kernels. */
    if (has_symmetric(coll) && !st_era_shows_symmetric(st_era_of(ledger->nccl)) &&
        n[ST_RAN_CALLED] > n[ST_RAN_GENERAL] + n[ST_RAN_CE])
        n[ST_RAN_SYMMETRIC] = n[ST_RAN_CALLED] - n[ST_RAN_GENERAL] - n[ST_RAN_CE];
    fputs("ran", out);
    write_size(out, coll, bucket);
    fprintf(out, " called=%llu captured=%llu general=%llu symmetric=%llu ce=%llu\n",
            (unsigned long long)n[ST_RAN_CALLED], (unsigned long long)n[ST_RAN_CAPTURED],
            (unsigned long long)n[ST_RAN_GENERAL], (unsigned long long)n[ST_RAN_SYMMETRIC],
            (unsigned long long)n[ST_RAN_CE]);
}

static void write_text(FILE *out, const struct st_ledger *ledger, const char *host)
{
    const struct st_process *process = st_process();
    /* How many ranks of the communicator this process has. Each rank opens one tuner and one
     * profiler, or only a profiler if the user has excluded our tuner. */
    int local = ledger->local ? ledger->local : ledger->profilers;
    const struct st_for_nccl here = st_process_for(ledger->nccl);
    int given = st_agree_sym_ctas_given(ledger->nccl);
    char release[16];

    fprintf(out,
            "# symtuner ledger 1\n"
            "comm id=0x%016llx ranks=%d nodes=%d local=%d nccl=%s rules=0x%016llx mode=%s "
            "sym-ctas=%d from=%s host=%s pid=%d opened=%llu\n",
            (unsigned long long)ledger->comm_id, ledger->ranks, ledger->nodes, local,
            st_release_print(ledger->nccl, release, sizeof release),
            (unsigned long long)here.rules_hash, st_mode_word[process->options.mode],
            given ? given : here.min_ctas, here.ctas_from, host, (int)getpid(),
            (unsigned long long)ledger->opened);
    for (int c = 0; c < SYMTUNER_COLLS; c++)
        for (int b = 0; b < ST_BUCKETS; b++) {
            for (int reg = 0; reg < 2; reg++)
                for (int v = 0; v < ST_VERDICTS; v++) {
                    if (st_ledger_read(&ledger->asked[c][b][reg][v]) == 0)
                        continue;
                    fputs("asked", out);
                    write_size(out, c, b);
                    fprintf(out, " registered=%d verdict=%s count=%llu\n", reg, st_verdict_word[v],
                            (unsigned long long)st_ledger_read(&ledger->asked[c][b][reg][v]));
                }
            for (int cell = 0; cell < ST_CELLS; cell++) {
                if (st_ledger_read(&ledger->picked[c][b][cell]) == 0)
                    continue;
                fputs("picked", out);
                write_size(out, c, b);
                fprintf(out, " algo=%s proto=%s count=%llu\n",
                        symtuner_algo_name(cell / SYMTUNER_PROTOS),
                        symtuner_proto_name(cell % SYMTUNER_PROTOS),
                        (unsigned long long)st_ledger_read(&ledger->picked[c][b][cell]));
            }
            write_ran(out, ledger, c, b);
        }
    fputs("end\n", out);
}

/* Append a ledger's text to the file that SYMTUNER_LEDGER names. */
static void dump(const struct st_ledger *ledger)
{
    const char *pattern = st_process()->options.ledger;
    char host[72], error[ST_APPEND_ERROR], *text = NULL;
    enum st_append done;
    size_t size = 0;
    FILE *memory;

    if (!pattern[0])
        return;
    memory = open_memstream(&text, &size);
    if (!memory)
        return;
    st_append_host(host, sizeof host);
    write_text(memory, ledger, host);
    if (fclose(memory) == 0) {
        done = st_append(pattern, text, size, error);
        if (done != ST_APPEND_ALL)
            st_warn("SYMTUNER_LEDGER=%s; the counters of communicator 0x%llx are %s", error,
                    (unsigned long long)ledger->comm_id,
                    done == ST_APPEND_CUT ? "cut off" : "lost");
    }
    free(text);
}

/* ---- life ----------------------------------------------------------------------------------- */

/* Write all open ledgers of this process, but not the copies of the parent's ledgers that a forked
 * child has. Call this with the lock held, so that no ledger is freed meanwhile. */
static void dump_all(void)
{
    for (const struct st_ledger *l = open_ledgers; l; l = l->next)
        if (l->pid == getpid())
            dump(l);
}

/* Write the ledgers of the communicators that still exist: many programs exit without destroying
 * their communicators. */
static void write_at_exit(void)
{
    if (!st_exit_lock(&lock))
        return;
    dump_all();
    pthread_mutex_unlock(&lock);
}

static void register_exit(void)
{
    atexit(write_at_exit);
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

struct st_ledger *st_ledger_open(uint64_t comm_id, int ranks, int nodes, int nccl)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct st_ledger *ledger;

    pthread_once(&once, register_exit);
    pthread_mutex_lock(&lock);
    for (ledger = open_ledgers; ledger; ledger = ledger->next)
        if (comm_id && ledger->comm_id == comm_id)
            break;
    if (!ledger && (ledger = calloc(1, sizeof *ledger))) {
        ledger->comm_id = comm_id;
        ledger->ranks = ranks;
        ledger->nodes = nodes;
        ledger->nccl = nccl;
        ledger->opened = now_ns();
        ledger->pid = getpid();
        ledger->next = open_ledgers;
        open_ledgers = ledger;
    }
    if (ledger)
        ledger->users++;
    pthread_mutex_unlock(&lock);
    return ledger;
}

bool st_ledger_tuner_opens(struct st_ledger *ledger)
{
    bool first;

    if (!ledger)
        return true;
    pthread_mutex_lock(&lock);
    first = ledger->local++ == 0;
    ledger->tuners++;
    pthread_mutex_unlock(&lock);
    return first;
}

void st_ledger_profiler_opens(struct st_ledger *ledger)
{
    if (!ledger)
        return;
    pthread_mutex_lock(&lock);
    ledger->profilers++;
    pthread_mutex_unlock(&lock);
}

bool st_ledger_tuner_closes(struct st_ledger *ledger)
{
    bool last;

    if (!ledger)
        return true;
    pthread_mutex_lock(&lock);
    last = --ledger->tuners == 0;
    pthread_mutex_unlock(&lock);
    return last;
}

void st_ledger_close(struct st_ledger *ledger)
{
    bool last;

    if (!ledger)
        return;
    pthread_mutex_lock(&lock);
    last = --ledger->users == 0;
    for (struct st_ledger **at = &open_ledgers; last && *at; at = &(*at)->next)
        if (*at == ledger) {
            *at = ledger->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (last) {
        dump(ledger);
        free(ledger);
    }
}

void st_ledger_add_shared(struct st_ledger *ledger, struct st_counter *counter)
{
    uintptr_t nobody = 0;

    if (atomic_load_explicit(&ledger->owner, memory_order_relaxed) == 0 &&
        atomic_compare_exchange_strong_explicit(&ledger->owner, &nobody, st_thread(),
                                                memory_order_relaxed, memory_order_relaxed))
        st_ledger_add(ledger, counter);
    else
        atomic_fetch_add_explicit(&counter->shared, 1, memory_order_relaxed);
}

void st_ledger_sums(const struct st_ledger *ledger, uint64_t *asked_out, uint64_t *steered_out)
{
    *asked_out = *steered_out = 0;
    for (int c = 0; c < SYMTUNER_COLLS; c++)
        for (int b = 0; b < ST_BUCKETS; b++)
            for (int v = 0; v < ST_VERDICTS; v++) {
                uint64_t n = st_ledger_read(&ledger->asked[c][b][0][v]) +
                             st_ledger_read(&ledger->asked[c][b][1][v]);

                *asked_out += n;
                if (v == ST_VERDICT_SYMMETRIC || v == ST_VERDICT_GENERAL || v == ST_VERDICT_LIMITED)
                    *steered_out += n;
            }
}

/* ---- on a signal ---------------------------------------------------------------------------- */

static sem_t asked_for;
static struct sigaction programs; /* the program's own action for the signal */

static bool program_handles(void)
{
    return programs.sa_handler != SIG_DFL && programs.sa_handler != SIG_IGN;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    int error = errno;

    sem_post(&asked_for); /* one of the few functions that a signal handler may call; it
                           * wakes listen_thread, which writes the ledgers */
    errno = error;
    if (!program_handles())
        return;
    if (programs.sa_flags & SA_SIGINFO)
        programs.sa_sigaction(number, info, context);
    else
        programs.sa_handler(number);
}

static void *listen_thread(void *unused)
{
    void (*dropin)(void);

    for (;;) {
        while (sem_wait(&asked_for) != 0)
            ;
        pthread_mutex_lock(&lock);
        dump_all();
        pthread_mutex_unlock(&lock);
        /* The drop-in, if it is loaded, writes its own ledger (dropin/ledger/book.h). */
        *(void **)&dropin = dlsym(RTLD_DEFAULT, "symtuner_nccl_ledger");
        if (dropin)
            dropin();
    }
    return unused;
}

static const struct st_options *listening;

static void listen_start(void)
{
    int number = listening->ledger_signal == ST_SIGNAL_USR1 ? SIGUSR1 : SIGUSR2;
    struct sigaction action = {.sa_flags = SA_RESTART | SA_ONSTACK};
    pthread_t thread;

    sigaction(number, NULL, &programs);
    if (program_handles()) { /* on_signal calls the program's handler: keep its mask and flags */
        action = programs;
        action.sa_flags &= ~(int)SA_RESETHAND;
    }
    action.sa_sigaction = on_signal;
    action.sa_flags |= SA_SIGINFO;
    sem_init(&asked_for, 0, 0);
    if (st_own_thread(&thread, NULL, listen_thread, NULL) == 0) {
        pthread_detach(thread);
        sigaction(number, &action, NULL);
    }
}

void st_ledger_listen(const struct st_options *options)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (!options->ledger_signal || !options->ledger[0])
        return;
    listening = options;
    pthread_once(&once, listen_start);
}
