/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/boxes/boxes.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dropin/group.h"

enum { COME_MS = 20000, PASS_MS = 60000 }; /* time limits of steps 1 and 2 (boxes.h) */

/* The magic number and the version that we write into an ncclConfig_t. The version is that of NCCL
 * 2.14; with it, later releases of NCCL read no member after ${blocking}. */
#define CONFIG_MAGIC 0xcafebeefu
enum { CONFIG_VERSION = 21400 };

/* How we divide the 128 bytes of an ncclUniqueId. NCCL uses the first 36 or 40 bytes of ${own}. The
 * drop-in writes the members after ${own}. */
enum { OWN = 48 };
struct layout {
    char own[OWN];
    char magic[8];
    uint64_t settings;
    char other[OWN]; /* the first bytes of the second id; its other bytes are 0 */
    char rest[16];
};
_Static_assert(sizeof(struct layout) == sizeof(struct nccl_abi_id), "the layout of an id");

static const char magic[8] = {'s', 'y', 'm', 't', 'u', 'n', 'e', 'r'};

static atomic_bool in_vain; /* this process has once waited for a rank that did not come */

static bool is_set(const char *name)
{
    const char *value = getenv(name);

    return value && *value;
}

/* May this process make the second communicator (boxes.h)? It may not if NCCL_COMM_BLOCKING is set,
 * because the variable overrides ncclConfig_t, and ncclCommInitRankConfig could then block. If
 * nccl.conf sets the variable, getenv finds it, too, because NCCL copies nccl.conf into the
 * environment. */
static bool wanted(const struct st_real *real)
{
    const char *nodes = getenv("SYMTUNER_AR_NODES");
    const struct st_kernels *kernels;

    if (getenv("NCCL_COMM_BLOCKING") || st_settings()->observe || atomic_load(&in_vain))
        return false;
    if (nodes && strcmp(nodes, "1") == 0)
        return true;
    if (!is_set("SYMTUNER_RULE") && !is_set("SYMTUNER_RULES"))
        /* Without rules boxes_asked_ returns 0, so do not load the library only to ask it. */
        return false;
    kernels = st_kernels_for(real);
    return kernels && kernels->boxes_asked_ && kernels->boxes_asked_();
}

static bool is_zero(const char *bytes, size_t n)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, n - 1) == 0;
}

void st_boxes_mark(const struct st_real *real, struct nccl_abi_id *id)
{
    struct layout all;
    struct nccl_abi_id other;

    memcpy(&all, id, sizeof all);
    if (!wanted(real) || !is_zero(id->bytes + OWN, sizeof *id - OWN) ||
        real->call.GetUniqueId(&other) != NCCL_ABI_SUCCESS ||
        !is_zero(other.bytes + OWN, sizeof other - OWN) || memcmp(&other, id, sizeof other) == 0)
        /* Write no mark: none is wanted, or there is no second id or no room for it. For example,
         * NCCL returns the same id each time if NCCL_COMM_ID is set. */
        return;
    memcpy(all.magic, magic, sizeof magic);
    all.settings = st_settings()->hash;
    memcpy(all.other, other.bytes, OWN);
    memcpy(id, &all, sizeof all);
}

struct st_boxes_mark st_boxes_read(const struct st_real *real, const struct nccl_abi_id *id)
{
    struct st_boxes_mark mark = {0};
    struct layout all;

    memcpy(&all, id, sizeof all);
    if (memcmp(all.magic, magic, sizeof magic) != 0 || !wanted(real))
        return mark;
    mark.there = true;
    mark.settings = all.settings;
    memcpy(mark.id.bytes, all.other, OWN);
    return mark;
}

static uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Wait until a non-blocking call on ${comm} has ended, but at most ${ms}. ${result} is what the
 * call returned. Returns whether the call succeeded. */
static bool ended(const struct st_real *real, void *comm, nccl_abi_result result, uint64_t ms)
{
    const uint64_t start = now_ms();
    int state = result;

    while (state == NCCL_ABI_IN_PROGRESS) {
        if (now_ms() - start >= ms) {
            atomic_store(&in_vain, true);
            return false;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        result = real->call.CommGetAsyncError(comm, &state);
        if (result != NCCL_ABI_SUCCESS)
            return false;
    }
    return state == NCCL_ABI_SUCCESS;
}

void *st_boxes_meet(const struct st_real *real, const struct st_boxes_mark *mark, int ranks,
                    int rank, bool able)
{
    struct nccl_abi_config config = {sizeof config, CONFIG_MAGIC, CONFIG_VERSION, 0};
    void *comm = NULL, *child = NULL;
    nccl_abi_result result;
    bool all;

    st_inside++;
    result = real->call.CommInitRankConfig(&comm, ranks, mark->id, rank, &config);
    all = comm && ended(real, comm, result, COME_MS);
    if (all && able && mark->settings == st_settings()->hash) {
        result = real->call.CommSplit(comm, NCCL_ABI_NO_COLOR, rank, &child, NULL);
        all = ended(real, comm, result, PASS_MS);
    } else {
        all = false;
    }
    st_inside--;
    if (all)
        return comm;
    if (comm)
        st_boxes_leave(real, comm);
    return NULL;
}

void st_boxes_leave(const struct st_real *real, void *comm)
{
    st_inside++;
    real->call.CommAbort(comm);
    st_inside--;
}
