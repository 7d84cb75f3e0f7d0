/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/settings.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "dropin/verify/cuda.h"
#include "nccl/names.h"
#include "nccl/variables.h"
#include "symtuner.h"

/* SYMTUNER_ONLY can name three collectives. They have the same numbers in both enums, so a bit of
 * st_settings.only means the same collective in both. */
_Static_assert((int)ST_TALLY_REDUCE_SCATTER == (int)ST_KERNEL_REDUCE_SCATTER &&
                   (int)ST_TALLY_ALL_GATHER == (int)ST_KERNEL_ALL_GATHER,
               "bits of st_settings.only");

bool st_off;

static struct st_settings settings;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic(struct st_tally_slot *) slot;
static atomic_bool kept;

__attribute__((constructor)) static void load(void)
{
    const char *mode = getenv("SYMTUNER_MODE");

    st_off = mode && strcmp(mode, "off") == 0;
}

/* ---- the warning ----------------------------------------------------------------------------- */

void st_warn_once(const char *format, ...)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    const char *log = getenv("SYMTUNER_LOG"); /* st_settings() may not have read it yet */
    char text[480];
    va_list args;

    if (atomic_flag_test_and_set(&warned))
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    st_tally_note(st_slot(), text);
    if (!log || strcmp(log, "off") != 0)
        fprintf(stderr, "symtuner: warning: %s\n", text);
}

/* ---- variables ------------------------------------------------------------------------------- */

static void wrong(const char *name, const char *value, const char *cure)
{
    settings.wrong = true;
    st_warn_once("%s=%.60s: write %s; NCCL runs all calls until then", name, value, cure);
}

/* Return the value of a variable that must be one of the words in its row of plugin/options.h. If
 * it is none of them, warn and return the default. */
static const char *word_of(const char *name)
{
    const char *value = getenv(name);
    struct symtuner_option row;

    for (int i = 0; symtuner_option_get(i, &row); i++) {
        if (strcmp(row.name, name) != 0)
            continue;
        if (!value)
            return row.fallback;
        if (st_word_listed(row.values, value, strncmp))
            return value;
        wrong(name, value, row.values);
        return row.fallback;
    }
    return "";
}

/* Return the value of the variable ${name}, which has a row in nccl/variables.c. If the variable is
 * not set, return ${fallback}; if it is wrong, also warn. */
static int value_of(const char *name, int fallback)
{
    const struct st_variable *variable = st_variable_find(name, strlen(name));
    const char *value = getenv(name);
    char legal[ST_VARIABLE_LEGAL];

    if (value && !st_variable_value(variable, value, &fallback)) {
        st_variable_legal(variable, legal);
        wrong(name, value, legal);
    }
    return fallback;
}

static void read_all(void)
{
    static const char *const unusual[] = {"SYMTUNER_RULE", "SYMTUNER_RULES", "SYMTUNER_AR_KERNEL",
                                          "SYMTUNER_AR_CTAS", "SYMTUNER_AR_MAX_CTAS"};
    uint64_t hash = st_hash(ST_HASH_START, SYMTUNER_VERSION, sizeof SYMTUNER_VERSION);
    const char *ledger = getenv("SYMTUNER_LEDGER");

    word_of("SYMTUNER_LOG"); /* warn if the value is wrong; st_warn_once reads it again */
    settings.observe = strcmp(word_of("SYMTUNER_MODE"), "observe") == 0;
    settings.only = (unsigned)value_of("SYMTUNER_ONLY", 1 << ST_TALLY_ALL_REDUCE);
    settings.verify = (uint32_t)value_of("SYMTUNER_VERIFY", 0);
    settings.max_comms = value_of("SYMTUNER_MAX_COMMS", -1);
    settings.usual = true;
    for (size_t i = 0; i < sizeof unusual / sizeof *unusual; i++)
        settings.usual &= !getenv(unusual[i]) || !*getenv(unusual[i]);
    if (ledger && *ledger)
        settings.ledger = strdup(ledger); /* the program may change its environment */
    hash = st_hash(hash, &settings.only, sizeof settings.only);
    settings.hash = st_hash(hash, &settings.verify, sizeof settings.verify);
}

const struct st_settings *st_settings(void)
{
    pthread_once(&once, read_all);
    return &settings;
}

/*
 * Return how many communicators may have handles on one GPU without a risk that their calls hang.
 * Ranks may start the calls of k communicators in different orders. The calls cannot hang if k - 1
 * waiting calls leave a multiprocessor free (include/symtuner_ar.h, Blocks). By default a call
 * leaves four multiprocessors free, so two communicators are safe. If SYMTUNER_AR_MAX_CTAS limits a
 * call to n CTAs, 1 + 100 / n communicators are safe on a GPU with more than 100 multiprocessors.
 * If the driver does not tell how many multiprocessors the GPU has, assume more than 100.
 */
static int comms_that_fit(int device)
{
    const char *text = getenv("SYMTUNER_AR_MAX_CTAS");
    int ctas = text ? atoi(text) : 0, usable, fit;

    if (ctas <= 0 || ctas >= 100)
        return 2;
    usable = st_cuda_multiprocessors(st_cuda(), device) - 1;
    if (usable < 0 || usable > 100)
        usable = 100;
    fit = 1 + usable / ctas;
    return fit > 2 ? fit : 2;
}

int st_settings_comms(int device)
{
    int most = st_settings()->max_comms;

    most = most >= 0 ? most : comms_that_fit(device);
    return most > 0 && st_settings_kept() ? most - 1 : most;
}

/*
 * If a GPU already has a handle, calls of further handles get 32 blocks less, because NCCL may run
 * a kernel beside them. A call of the first handle takes up to all multiprocessors but four, and a
 * kernel of NCCL takes up to 32. Suppose that three ranks start our calls 1 and 2 and NCCL's call X
 * on three streams, in the orders 1 2 X, 2 X 1 and X 1 2. If both of our calls had 128 blocks on
 * 132 multiprocessors, each rank would have room only for blocks of the first two calls in its
 * order. Then no call would run on all ranks, and all would wait for ever. But if call 2 has 32
 * blocks less, it leaves room for X and for blocks of call 1. So call 1 runs on all ranks and ends.
 *
 * With two ranks, or without X, some call runs on all ranks anyway. For two kernels of NCCL at a
 * time, 64 blocks less would be needed. If ranks of a communicator pass different limits, the
 * library takes the smallest.
 */
int st_settings_further(int device)
{
    enum { FREE = 4, NCCL = 32, USUAL = 132 };
    const char *text = getenv("SYMTUNER_AR_MAX_CTAS");
    int count = st_cuda_multiprocessors(st_cuda(), device);
    int most = ((count > 0 ? count : USUAL) - FREE) / 4 * 4;

    if (text && *text)
        return 0;
    return most - NCCL > most / 2 ? most - NCCL : most / 2 > 0 ? most / 2 : 1;
}

void st_settings_keep(void)
{
    atomic_store(&kept, true);
}

bool st_settings_kept(void)
{
    return atomic_load(&kept);
}

/* ---- counters -------------------------------------------------------------------------------- */

struct st_tally_slot *st_slot(void)
{
    return atomic_load_explicit(&slot, memory_order_acquire);
}

/* Called in a forked child, which must not count in its parent's slot. The child claims a slot of
 * its own when it makes its first communicator. */
static void forget(void)
{
    atomic_store(&slot, NULL);
}

void st_slot_claim(int rank, int ranks, int nccl, const char *library)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool watches_fork, failed;
    static struct st_tally *tally;
    const char *path = getenv(ST_TALLY_VARIABLE);
    struct st_tally_slot *mine;
    char error[256];

    if (!path || !*path || (st_slot() && (!nccl || st_slot()->nccl)))
        return;
    pthread_mutex_lock(&lock);
    if (!tally && !failed) {
        tally = st_tally_open(path, error, sizeof error);
        failed = !tally;
        if (failed)
            st_warn_once("%s: nothing is counted", error);
    }
    if (tally && !st_slot() && (mine = st_tally_claim(tally, program_invocation_short_name))) {
        mine->rank = rank;
        mine->ranks = ranks;
        if (!watches_fork)
            watches_fork = pthread_atfork(NULL, NULL, forget) == 0;
        atomic_store_explicit(&slot, mine, memory_order_release);
    }
    mine = st_slot();
    if (mine && nccl && !mine->nccl) {
        snprintf(mine->library, sizeof mine->library, "%s", library);
        mine->nccl = nccl;
    }
    pthread_mutex_unlock(&lock);
}
