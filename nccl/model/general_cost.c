/* SPDX-License-Identifier: Apache-2.0 */
/*
 * general_cost.c - computes the cost of a call for each algorithm and protocol, and then the call's
 * number of channels. The cost is latency plus bytes divided by bandwidth.
 *
 * The bandwidths and channels of each machine are from the recordings in test/data. The formulas
 * are NCCL's for one node. build/check-corpus compares the results with every recorded cost table
 * and channel count.
 */
#include "nccl/model/general_cost.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "nccl/model/setting_list.h"
#include "nccl/release.h"

/* The bus bandwidths, in GB/s, and the numbers of channels that NCCL finds in a machine. nvls_in
 * and nvls_out are the bandwidths of one NVLS channel, inside the node and to the switch. */
static const struct bus {
    const char *family;
    int ranks;
    float ring, tree_old, tree; /* releases before 2.29 have tree_old instead of tree */
    float nvls_in, nvls_out;
    int channels, nvls_channels;
} buses[] = {
    {"h200", 2, 360, 464.4f, 464.4f, 60, 60, 24, 16},
    {"h200", 3, 360, 441.6f, 441.6f, 60, 60, 24, 16},
    {"h200", 4, 360, 331.2f, 331.2f, 60, 60, 24, 16},
    {"h200", 6, 360, 331.2f, 331.2f, 50, 60, 24, 16},
    {"h200", 8, 360, 331.2f, 331.2f, 40, 60, 24, 16},
    {"b200", 8, 720, 588.8f, 662.4f, 80, 90, 32, 24},
    {"a100pcie", 2, 24, 36.8f, 36.8f, 0, 0, 4, 0},
    {"l40s", 4, 24, 22.08f, 22.08f, 0, 0, 4, 0},
    {"rtxpro6000", 2, 48, 73.6f, 82.8f, 0, 0, 4, 0},
    {"rtxpro6000", 4, 48, 44.16f, 44.16f, 0, 0, 4, 0},
};
enum { BUSES = sizeof buses / sizeof *buses };

/* GPUs by the name that they report. If ${editions}, other words may follow the name. No word may
 * follow "NVIDIA H200", because "NVIDIA H200 NVL" is another GPU with other links. */
static const struct {
    const char *gpu, *family;
    bool editions;
} gpus[] = {
    {"NVIDIA H200", "h200", false},
    {"NVIDIA B200", "b200", false},
    {"NVIDIA L40S", "l40s", false},
    {"NVIDIA RTX PRO 6000", "rtxpro6000", true},
};

/* What differs between releases; st_era.general is the index of the release's row. */
static const struct general {
    bool nvls_flat;         /* NCCL does not multiply NVLS's bandwidth by an efficiency       */
    bool first_tree;        /* trees have the bandwidth bus.tree_old, not bus.tree            */
    bool any_window;        /* a buffer in a window counts as registered even if windows are off
                               or cannot work                                                 */
    bool both_sides;        /* a ring uses registered buffers only if both are registered     */
    bool least_a_channel;   /* each channel gets at least ${least} bytes of traffic           */
    signed char nvls_ranks; /* NVLS needs at least this many ranks                            */
    signed char batch;      /* how many calls of a group fit into a batch of work             */
    int least;              /* a cell, NCCL's smallest piece of work, has at least this many
                               bytes of traffic                                               */
    float ll128;            /* LL128 bandwidth of a ring channel on sm_100 and later, in GB/s */
} generals[] = {
    {0},
    {true, true, true, true, true, 3, 10, 16 << 10, 73.4f},      /* 2.27    */
    {false, true, true, true, true, 3, 10, 16 << 10, 73.4f},     /* 2.28.3  */
    {false, true, true, true, true, 2, 10, 16 << 10, 73.4f},     /* 2.28.7  */
    {false, false, false, false, false, 2, 10, 32 << 10, 34.5f}, /* 2.29.2  */
    {false, false, false, false, false, 2, 10, 32 << 10, 40.0f}, /* 2.29.7  */
    {false, false, false, false, false, 2, 8, 32 << 10, 40.0f},  /* 2.30    */
};

/* Latencies in microseconds. base_us[0: tree, 1: ring][protocol] is for a call;
 * step_us[0: PCIe, 1: NVLink][0: tree, 1: ring][protocol] is for each hop from rank to rank. */
static const float base_us[2][3] = {{6.8f, 14.0f, 8.4f}, {6.6f, 14.0f, 8.4f}}; /* tree, ring */
static const float step_us[2][2][3] = {
    {{1.0f, 1.9f, 4.0f}, {1.0f, 2.5f, 5.7f}}, /* PCIe   */
    {{0.6f, 1.25f, 4.0f}, {0.6f, 1.9f, 3.4f}}, /* NVLink */
};
static const float nvls_us = 25.0f;

/* tree_share[protocol][log2(bytes / 64)] is the fraction of the bandwidth that a tree reaches with
 * messages of this size. */
static const float tree_share[3][23] = {
    {1, 1, 1, 1, .9f, .8f, .7f, .7f, .7f, .7f, .6f, .5f, .4f, .4f, .5f, .6f, .7f, .8f, .9f, 1, 1, 1,
     1},
    {1, 1, 1, 1, 1, .9f, .8f, .8f, .8f, .7f, .6f, .6f, .6f, .6f, .6f, .6f, .8f, .9f, .9f, .9f, .9f,
     1, 1},
    {.9f, .9f, .9f, .9f, .9f, .9f, .9f, .8f, .7f, .6f, .6f, .5f, .5f, .5f, .5f, .6f, .7f, .8f, .7f,
     .7f, .8f, .9f, .9f},
};

const char *st_general_family(const char *name)
{
    for (int i = 0; i < BUSES; i++)
        if (strncmp(name, buses[i].family, strlen(buses[i].family)) == 0)
            return buses[i].family;
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++)
        if (gpus[i].editions ? strncmp(name, gpus[i].gpu, strlen(gpus[i].gpu)) == 0
                             : strcmp(name, gpus[i].gpu) == 0)
            return gpus[i].family;
    return NULL;
}

static const struct general *general_of(const struct symtuner_call *call)
{
    return &generals[st_era_of(call->nccl)->general];
}

/* Return the row of ${buses} for the machine and the number of ranks. Returns NULL if there is no
 * such row, if the table ${generals} lacks the release, or if a byte count would overflow. */
static const struct bus *find_bus(const struct symtuner_call *call, const char *family)
{
    const uint64_t most = 1ull << 58;
    uint64_t size = (uint64_t)symtuner_dtype_size((int)call->dtype);

    if (!family || call->nodes != 1 || general_of(call) == generals ||
        call->count > most / size / (uint64_t)call->ranks / (uint64_t)call->group)
        return NULL;
    for (int i = 0; i < BUSES; i++)
        if (strcmp(buses[i].family, family) == 0 && buses[i].ranks == call->ranks)
            return &buses[i];
    return NULL;
}

static enum st_says says_of(const struct symtuner_call *call, const char *list, const char *word)
{
    return st_list_says(list, symtuner_coll_name((int)call->coll), word);
}

static bool algo_allowed(const struct symtuner_call *call, const char *algo)
{
    return says_of(call, call->algo, algo) != ST_SAYS_NO;
}

/* May NCCL use protocol ${proto}? Over PCIe it uses LL128 only if NCCL_PROTO names LL128. */
static bool proto_allowed(const struct symtuner_call *call, int proto)
{
    enum st_says says = says_of(call, call->proto, symtuner_proto_name(proto));

    return says == ST_SAYS_YES ||
           (says == ST_SAYS_NOTHING && (proto != SYMTUNER_LL128 || call->nvlink));
}

static float least(float a, float b)
{
    return a < b ? a : b;
}

static float ring_bus(const struct symtuner_call *call, const struct bus *bus, int proto)
{
    static const float ll_max[] = {87.7f, 141.0f, 282.0f};

    if (proto == SYMTUNER_LL)
        return least(ll_max[call->arch >= 100 ? 2 : call->arch >= 90], bus->ring * 0.5f);
    if (proto == SYMTUNER_LL128)
        return least(bus->ring * 0.92f,
                     call->arch >= 100 ? 16 * general_of(call)->ll128 : bus->ring);
    return bus->ring;
}

static float tree_bus(const struct symtuner_call *call, const struct bus *bus, int proto)
{
    float simple = general_of(call)->first_tree ? bus->tree_old : bus->tree;

    return proto == SYMTUNER_LL       ? simple / 3.8f
           : proto == SYMTUNER_LL128 ? simple * 7.0f / 9.0f
                                      : simple;
}

/* Can multicast reduce this type with this operation? AllGather only copies. */
static bool nvls_can(const struct symtuner_call *call)
{
    bool sum = call->op == SYMTUNER_SUM;

    if (call->coll == SYMTUNER_ALLGATHER)
        return true;
    switch (call->dtype) {
    case SYMTUNER_INT32:
    case SYMTUNER_UINT32:
    case SYMTUNER_INT64:
    case SYMTUNER_UINT64:
    case SYMTUNER_FLOAT16:
    case SYMTUNER_BFLOAT16:
        return sum || call->op == SYMTUNER_MAX || call->op == SYMTUNER_MIN;
    case SYMTUNER_FLOAT32:
    case SYMTUNER_FLOAT64:
        return sum;
    default:
        return false;
    }
}

/* Return NVLS's bandwidth in GB/s. It counts the bytes of the result, not the bytes on the bus. */
static float nvls_bw(const struct symtuner_call *call, const struct bus *bus)
{
    float ranks = (float)call->ranks, share = (ranks - 1) / ranks;
    float in = bus->nvls_in * (call->arch >= 100 ? 0.74f : 0.85f) * share;

    if (general_of(call)->nvls_flat)
        return call->coll == SYMTUNER_ALLREDUCE
                   ? ranks * least(bus->nvls_in, bus->nvls_out) * 5.0f / 6.0f
                   : ranks * least(bus->nvls_in * share, bus->nvls_out * 0.9f);
    if (call->coll != SYMTUNER_ALLREDUCE)
        return ranks * least(in * share, bus->nvls_out);
    return ranks * least(in * 2, bus->nvls_out) * ranks / (2 * (ranks - 1));
}

static uint64_t up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

static int clamp_ctas(const struct symtuner_call *call, int channels)
{
    if (channels > call->max_ctas)
        channels = call->max_ctas;
    return channels < call->min_ctas ? call->min_ctas : channels;
}

bool st_general_table(const struct symtuner_call *call, const char *family,
                      float table[SYMTUNER_ALGOS * SYMTUNER_PROTOS])
{
    const struct bus *bus = find_bus(call, family);
    const struct general *general = general_of(call);
    bool ar = call->coll == SYMTUNER_ALLREDUCE;
    bool all = call->coll == SYMTUNER_ALLGATHER || call->coll == SYMTUNER_REDUCESCATTER;
    int steps = ar ? 2 * (call->ranks - 1) : all ? call->ranks - 1 : call->ranks;
    uint64_t bytes = call->count * (uint64_t)symtuner_dtype_size((int)call->dtype) *
                     (uint64_t)(all ? call->ranks : 1) * (uint64_t)call->group;
    uint64_t pipe, batch = (uint64_t)general->batch;
    int log2_64 = bytes >= 64 ? (int)log2((double)(bytes >> 6)) : -1;

    if (!bus)
        return false;
    /* ${pipe} is the number of calls of a group that share a channel. */
    pipe = up((uint64_t)call->group, (uint64_t)clamp_ctas(call, bus->channels));
    for (int i = 0; i < SYMTUNER_ALGOS * SYMTUNER_PROTOS; i++)
        table[i] = -1.0f;
    for (int p = 0; p < SYMTUNER_PROTOS; p++) {
        const float *hop = step_us[call->nvlink != 0][0];
        float bw, us;

        if (!proto_allowed(call, p))
            continue;
        if (ar && algo_allowed(call, "tree")) {
            bw = tree_bus(call, bus, p) * 0.5f;
            if (log2_64 >= 0 && log2_64 < 23)
                bw *= tree_share[p][log2_64];
            us = base_us[0][p] + 2 * (float)(call->ranks - 1) * hop[p];
            table[SYMTUNER_TREE * SYMTUNER_PROTOS + p] =
                us * (float)up(pipe, batch) + (float)bytes / (1000 * bw);
        }
        if (algo_allowed(call, "ring")) {
            hop = step_us[call->nvlink != 0][1];
            bw = ring_bus(call, bus, p) * (float)call->ranks / (float)steps;
            us = base_us[1][p] + (ar || all ? (float)steps : 1.0f) * hop[p];
            table[SYMTUNER_RING * SYMTUNER_PROTOS + p] =
                us * (float)pipe + (float)bytes / (1000 * bw);
        }
    }
    if (call->multicast && bus->nvls_in > 0 && (ar || all) && nvls_can(call) &&
        algo_allowed(call, "nvls") && proto_allowed(call, SYMTUNER_SIMPLE) &&
        call->ranks >= general->nvls_ranks)
        table[SYMTUNER_NVLS * SYMTUNER_PROTOS + SYMTUNER_SIMPLE] =
            nvls_us * (float)up(pipe, batch) + (float)bytes / (1000 * nvls_bw(call, bus));
    return true;
}

/* ---- channels ------------------------------------------------------------------------------- */

/* Does NCCL treat the buffer as registered? From 2.29 on a window counts as registered only where
 * windows work. */
static bool registered(const struct symtuner_call *call, enum symtuner_reg reg)
{
    bool windows = general_of(call)->any_window ||
                   (call->win_enable && call->cumem_enable && call->peer_raw && call->nodes == 1);

    return reg == SYMTUNER_REG_COMM || (reg != SYMTUNER_REG_NONE && windows);
}

bool st_general_registered(const struct symtuner_call *call)
{
    return call->graph || (registered(call, call->send) && registered(call, call->recv));
}

/* Does a ring read and write the registered buffers of peers directly? */
static bool ring_registers(const struct symtuner_call *call, int proto)
{
    bool copies = call->coll == SYMTUNER_ALLGATHER || call->coll == SYMTUNER_BROADCAST ||
                  (call->coll == SYMTUNER_ALLREDUCE && !call->inplace);

    return proto == SYMTUNER_SIMPLE && copies && registered(call, call->recv) &&
           (!general_of(call)->both_sides || call->graph || registered(call, call->send));
}

/* Return how many of the ${channels} channels NVLS uses. NVLS needs fewer channels with registered
 * buffers. If ranks share a process, NCCL registers buffers only with
 * NCCL_SINGLE_PROC_MEM_REG_ENABLE. */
static int nvls_registered(const struct symtuner_call *call, int channels)
{
    bool new_gpu = call->arch >= 100;
    bool send = registered(call, call->send), recv = registered(call, call->recv);
    int share;

    if (call->one_process && !call->proc_reg)
        return channels;
    if (call->coll == SYMTUNER_ALLREDUCE && send && recv)
        share = new_gpu ? 64 : 32;
    else if (call->coll == SYMTUNER_ALLGATHER && recv)
        share = 32;
    else if (call->coll == SYMTUNER_REDUCESCATTER && send)
        share = new_gpu ? 48 : 40;
    else
        return channels;
    return clamp_ctas(call, (share + call->ranks - 1) / call->ranks);
}

/* NCCL's scheduler cuts each call of a group into cells and gives the cells to channels. Return how
 * many channels get cells of the group's first call. The group has ${calls} equal calls of ${bytes}
 * bytes each. There are at most ${most} channels. */
static int deal(const struct general *general, uint64_t bytes, int calls, uint64_t traffic_a_byte,
                int wanted, int most, bool ll)
{
    const uint64_t least = (uint64_t)general->least;
    uint64_t traffic = bytes * traffic_a_byte * (ll ? 4 : 1), channel, cell, cells, a_channel;
    uint64_t low, middle, high;

    if (traffic < least)
        traffic = least;
    wanted = (int64_t)wanted * calls < most ? wanted * calls : most;
    channel = traffic * (uint64_t)calls / (uint64_t)wanted;
    channel = !general->least_a_channel ? up(channel, 16) * 16 : channel < least ? least : channel;
    traffic_a_byte *= ll ? 4 : 1;
    cell = up(up(least, traffic_a_byte), 16) * 16;
    cells = up(bytes, cell);
    a_channel = up(channel, cell * traffic_a_byte);
    low = most == 1 || cells < a_channel ? cells : a_channel;
    if (a_channel > cells)
        a_channel = cells;
    middle = (cells - low) / a_channel;
    high = (cells - low) % a_channel;
    if ((uint64_t)most < 1 + middle + (high != 0)) {
        middle = (uint64_t)most - 2;
        high = (cells - low) / (middle + 1) + (cells - low) % (middle + 1);
    }
    return (int)(1 + middle + (high != 0));
}

int st_general_channels(const struct symtuner_call *call, const char *family, int algo, int proto)
{
    static const int threads[3] = {512, 640, 512};
    const int group_max = 512; /* more calls may not fit into one launch */
    const struct bus *bus = find_bus(call, family);
    bool all = call->coll == SYMTUNER_ALLGATHER || call->coll == SYMTUNER_REDUCESCATTER;
    uint64_t bytes = call->count * (uint64_t)symtuner_dtype_size((int)call->dtype);
    uint64_t threshold, total = bytes * (uint64_t)(all ? call->ranks : 1) * (uint64_t)call->group;
    int most, wanted;

    if (!bus || proto < 0 || proto >= SYMTUNER_PROTOS || call->group > group_max)
        return 0;
    most = wanted = clamp_ctas(call, algo == SYMTUNER_NVLS ? bus->nvls_channels : bus->channels);
    threshold = (uint64_t)threads[proto] * (proto == SYMTUNER_SIMPLE ? 64 : 8);
    if (algo == SYMTUNER_RING && proto == SYMTUNER_LL)
        threshold *= (uint64_t)call->ranks;
    while (algo != SYMTUNER_NVLS && wanted > 1 && total < (uint64_t)wanted * threshold)
        wanted--;
    if (algo == SYMTUNER_NVLS)
        wanted = nvls_registered(call, wanted);
    else if (wanted > 16 && wanted <= 24 && algo == SYMTUNER_RING && ring_registers(call, proto))
        wanted = 16;
    return deal(general_of(call), bytes, call->group,
                call->coll == SYMTUNER_ALLREDUCE ? 2 : all ? (uint64_t)call->ranks : 1, wanted,
                most, proto == SYMTUNER_LL);
}
