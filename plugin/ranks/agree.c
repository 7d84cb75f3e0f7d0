/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/ranks/agree.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "plugin/log.h"
#include "plugin/ranks/rollcall.h"

struct st_agree {
    const struct st_process *process;
    struct st_for_nccl here;
    struct st_roll *roll; /* NULL: there is no shared memory, so ranks cannot agree */
    uint64_t comm_id;
    int ranks;
    bool first;           /* this is the first communicator of this NCCL in the process */
    struct st_roll_entry own;
};

/* If memory runs out, st_agree_open returns the address of this object. Then this rank cannot know
 * whether the other ranks agree with it, so it applies no rules. */
static struct st_agree nobody;

/* The first communicator that the NCCL of each release has made in this process. Its roll call
 * (plugin/ranks/rollcall.h) decides our answer for NCCL_SYM_CTAS, and is never freed, because NCCL
 * may ask at any time. */
enum { RELEASES = 8 };
static struct first {
    atomic_int nccl; /* 0: this element is free */
    uint64_t id;
    _Atomic(struct st_roll *) roll;
} firsts[RELEASES];
/* Guards the ids, and the search for a free element of ${firsts}. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct first *first_of(int nccl)
{
    for (int i = 0; i < RELEASES; i++)
        if (atomic_load(&firsts[i].nccl) == nccl)
            return &firsts[i];
    return NULL;
}

static struct st_roll *first_roll(int nccl)
{
    struct first *first = first_of(nccl);

    return first ? atomic_load(&first->roll) : NULL;
}

/* ---- messages -------------------------------------------------------------------------------- */

enum cause { RULES_DIFFER, RANKS_MISSING, MIN_DIFFERS, NO_SYM_CTAS, CAUSES };

/* Should ${cause} be logged now? A cause is logged once for each communicator that has it. For the
 * first such communicator of the process it is a warning, and then ${*warn_out} becomes true. For
 * later ones it has level INFO. */
static bool new_cause(const struct st_agree *agree, enum cause cause, bool *warn_out)
{
    static atomic_bool said[CAUSES];
    static _Atomic uint64_t last[CAUSES];
    bool again = atomic_exchange(&last[cause], agree->comm_id) == agree->comm_id;

    *warn_out = !atomic_exchange(&said[cause], true);
    return (*warn_out || !again) && agree->process->options.mode != ST_MODE_OFF;
}

#define SAY(agree, cause, ...)                                                                     \
    do {                                                                                           \
        bool warn_;                                                                                \
        if (new_cause(agree, cause, &warn_))                                                       \
            (warn_ ? st_warn : st_info)(__VA_ARGS__);                                              \
    } while (0)

static const char *source_of(const struct st_agree *agree)
{
    const struct st_options *options = &agree->process->options;

    return options->rules[0]   ? options->rules
           : options->rule[0]  ? "SYMTUNER_RULE"
           : agree->here.rules ? "NCCL_TUNER_CONFIG_FILE"
                               : "none";
}

static void say_verdict(const struct st_agree *agree, enum st_roll_verdict verdict, int present)
{
    const struct st_process *process = agree->process;

    if (verdict == ST_ROLL_DIFFER)
        SAY(agree, RULES_DIFFER,
            "comm 0x%llx: its ranks differ in rules, mode, release or machine, so no rule is "
            "applied to it on any rank; this rank: rules %s (0x%016llx), mode %s; give all ranks "
            "the same files and SYMTUNER_ variables",
            (unsigned long long)agree->comm_id, source_of(agree),
            (unsigned long long)agree->here.rules_hash, st_mode_word[process->options.mode]);
    else if (verdict == ST_ROLL_MISSING && (agree->own.rules || agree->here.min_ctas))
        SAY(agree, RANKS_MISSING,
            "comm 0x%llx: %d of %d ranks answered symtuner's roll call, so no rule is applied to "
            "it on any rank%s; this rank: rules %s (0x%016llx); load symtuner on all ranks, with "
            "one user and one /dev/shm",
            (unsigned long long)agree->comm_id, agree->roll ? present : 0, agree->ranks,
            agree->here.min_ctas ? ", and symmetric kernels may hang, because other ranks may lack "
                                "our NCCL_MIN_CTAS" : "",
            source_of(agree), (unsigned long long)agree->here.rules_hash);
}

static void say_sym_ctas(const struct st_agree *agree, const char *why)
{
    SAY(agree, NO_SYM_CTAS,
        "[process] sym-ctas = %d is not applied: %s. NCCL reads the count once per process, so "
        "NCCL gets it only if the first communicator of every rank spans all GPUs of one box and "
        "all ranks want the same count; otherwise set NCCL_SYM_CTAS yourself, on all ranks",
        agree->here.sym_ctas, why);
}

static void say_ctas(const struct st_agree *agree)
{
    const struct st_process *process = agree->process;
    int told = agree->first ? st_roll_ctas(agree->roll)
                            : st_agree_sym_ctas_given(agree->here.nccl);

    if (st_roll_min_differs(agree->roll))
        SAY(agree, MIN_DIFFERS,
            "comm 0x%llx: its ranks got different values of NCCL_MIN_CTAS, this rank %d; %s; set "
            "NCCL_ENV_PLUGIN, SYMTUNER_ variables and NCCL's CTA variables alike on all ranks",
            (unsigned long long)agree->comm_id, agree->own.min_ctas,
            told == ST_ROLL_REPAIR_CTAS ? "all are told NCCL_SYM_CTAS=8 instead"
                                        : "symmetric kernels may hang");
    if (agree->first && agree->own.sym_ctas && agree->own.asked &&
        agree->ranks == process->machine.gpus && told != agree->own.sym_ctas)
        say_sym_ctas(agree, "the ranks of the first communicator do not all want it");
}

/* ---- one rank -------------------------------------------------------------------------------- */

/* Return a hash of everything that decisions about calls depend on. Returns 0 if there are no rules
 * for calls, or if SYMTUNER_MODE keeps them from acting. */
static uint64_t decides(const struct st_process *process, const struct st_for_nccl *here)
{
    const struct symtuner_machine *machine = &process->machine;
    uint64_t hash = here->rules_hash;

    if (process->options.mode != ST_MODE_STEER || !st_process_call_rules(here))
        return 0;
    hash = st_hash_value(hash, (uint64_t)here->nccl);
    hash = st_hash_value(hash, process->mixed);
    hash = st_hash_value(hash, (uint64_t)machine->nvlink);
    hash = st_hash_value(hash, (uint64_t)machine->multicast);
    hash = st_hash_value(hash, (uint64_t)machine->gpus);
    hash = st_hash_text(hash, machine->gpu);
    return st_hash_text(hash, SYMTUNER_VERSION) | 1;
}

static bool is_first(int nccl, uint64_t comm_id)
{
    struct first *first;

    pthread_mutex_lock(&lock);
    if (!first_of(nccl) && (first = first_of(0))) {
        first->id = comm_id;
        atomic_store(&first->nccl, nccl);
    }
    first = first_of(nccl);
    pthread_mutex_unlock(&lock);
    return first && first->id == comm_id;
}

/* Return the reason why NCCL cannot get the count of [process] rules, or NULL if there is none.
 * Finds only reasons that this rank knows without the roll call. The result matters only for the
 * first communicator that an NCCL makes. */
static const char *no_sym_ctas(const struct st_process *process, const struct st_agree *agree,
                               int ranks, int nodes)
{
    if (nodes > 1)
        return "the first communicator spans several nodes";
    if (process->machine.gpus != ranks)
        return "the first communicator does not span all GPUs of this box";
    return agree && agree->roll ? NULL : "there is no shared memory (/dev/shm) to compare ranks in";
}

static struct st_agree *join(const struct st_process *process, const struct st_for_nccl *here,
                             uint64_t comm_id, int ranks, bool first)
{
    const char *min_ctas = getenv("NCCL_MIN_CTAS");
    struct st_agree *agree = calloc(1, sizeof *agree);
    struct st_roll *none = NULL;

    if (!agree)
        return &nobody;
    agree->process = process;
    agree->comm_id = comm_id;
    agree->ranks = ranks;
    agree->here = *here;
    agree->first = first;
    agree->own = (struct st_roll_entry){
        .rules = decides(process, here),
        .min_ctas = min_ctas ? (int)strtol(min_ctas, NULL, 0) : here->min_ctas,
        .sym_ctas = here->sym_ctas,
        .gpus = process->machine.gpus,
        .asked = here->asks && !getenv("NCCL_SYM_CTAS"),
        .first = first};
    agree->roll = st_roll_join(comm_id, ranks, &agree->own);
    if (first && agree->roll)
        atomic_compare_exchange_strong(&first_of(here->nccl)->roll, &none, agree->roll);
    return agree;
}

struct st_agree *st_agree_open(const struct st_process *process, const struct st_for_nccl *here,
                               uint64_t comm_id, int ranks, int nodes)
{
    struct st_agree *agree = NULL;
    static atomic_bool said_unchecked;
    const char *why;
    bool first;

    if (ranks < 2)
        return NULL; /* a single rank has no other ranks to differ from */
    if (st_process_call_rules(here) && process->options.mode != ST_MODE_OFF &&
        (!comm_id || nodes > 1) && !atomic_exchange(&said_unchecked, true))
        st_info("%s: ranks are not compared, give all of them the same rules; `symtuner agree` "
                "compares their ledgers",
                comm_id ? "a communicator over several nodes"
                        : "this NCCL gives a tuner no communicator id");
    first = is_first(here->nccl, comm_id);
    if (comm_id && nodes == 1)
        agree = join(process, here, comm_id, ranks, first);
    why = no_sym_ctas(process, agree, ranks, nodes);
    if (first && why && here->sym_ctas && here->asks && agree != &nobody) {
        struct st_agree unheard = {.process = process, .here = *here, .comm_id = comm_id};

        say_sym_ctas(&unheard, why);
    }
    return agree;
}

bool st_agree_rules(struct st_agree *agree)
{
    enum st_roll_verdict verdict = ST_ROLL_MISSING;
    int present = 0;

    if (!agree)
        return true;
    if (agree == &nobody)
        return false;
    if (agree->roll) {
        verdict = st_roll_rules(agree->roll, &present);
        st_roll_hide(agree->roll);
        say_ctas(agree);
    }
    say_verdict(agree, verdict, present);
    return verdict == ST_ROLL_ALIKE;
}

void st_agree_close(struct st_agree *agree)
{
    if (!agree || agree == &nobody)
        return;
    if (agree->roll && agree->roll == first_roll(agree->here.nccl))
        st_roll_hide(agree->roll);
    else
        st_roll_leave(agree->roll);
    free(agree);
}

int st_agree_sym_ctas(int nccl)
{
    struct st_roll *roll = first_roll(nccl);

    return roll ? st_roll_ctas(roll) : 0;
}

int st_agree_sym_ctas_given(int nccl)
{
    struct st_roll *roll = first_roll(nccl);

    return roll ? st_roll_ctas_given(roll) : 0;
}
