/* SPDX-License-Identifier: Apache-2.0 */
/*
 * general_model.c - latency plus bytes over bandwidth, per algorithm and protocol.
 *
 * The bandwidths of a machine were read off the recorded cost tables of test/data; the formulas
 * are NCCL's and hold for one node. `symtuner why --corpus` compares every recorded table.
 */
#include "cli/general_model.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "plugin/nccl_release.h"

/* Bus bandwidths that NCCL found, GB/s. NVLS: of one of its ${ranks} channels, inside the node and
 * towards the switch. */
static const struct bus {
    const char *family;
    int ranks;
    float ring, tree_old, tree; /* tree_old: before 2.29 */
    float nvls_in, nvls_out;
} buses[] = {
    {"h200", 2, 360, 464.4f, 464.4f, 60, 60}, {"h200", 3, 360, 441.6f, 441.6f, 60, 60},
    {"h200", 4, 360, 331.2f, 331.2f, 60, 60}, {"h200", 6, 360, 331.2f, 331.2f, 50, 60},
    {"h200", 8, 360, 331.2f, 331.2f, 40, 60}, {"b200", 8, 720, 588.8f, 662.4f, 80, 90},
    {"a100pcie", 2, 24, 36.8f, 36.8f, 0, 0},  {"l40s", 4, 24, 22.08f, 22.08f, 0, 0},
    {"rtxpro6000", 2, 48, 73.6f, 82.8f, 0, 0}, {"rtxpro6000", 4, 48, 44.16f, 44.16f, 0, 0},
};
enum { BUSES = sizeof buses / sizeof *buses };

/* What a GPU calls itself, where it is not the family's name. */
static const struct {
    const char *gpu, *family;
} gpus[] = {
    {"NVIDIA H200", "h200"},
    {"NVIDIA B200", "b200"},
    {"NVIDIA L40S", "l40s"},
    {"NVIDIA RTX PRO 6000", "rtxpro6000"},
};

static const float base_us[2][3] = {{6.8f, 14.0f, 8.4f}, {6.6f, 14.0f, 8.4f}}; /* tree, ring */
static const float step_us[2][2][3] = {                                      /* per hop    */
    {{1.0f, 1.9f, 4.0f}, {1.0f, 2.5f, 5.7f}}, /* PCIe   */
    {{0.6f, 1.25f, 4.0f}, {0.6f, 1.9f, 3.4f}}, /* NVLink */
};
static const float nvls_us = 25.0f;

/* How much of its bandwidth a tree reaches, by protocol and log2(bytes / 64). */
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
        if (strncmp(name, gpus[i].gpu, strlen(gpus[i].gpu)) == 0)
            return gpus[i].family;
    return NULL;
}

static const struct bus *find_bus(const char *family, int ranks)
{
    for (int i = 0; family && i < BUSES; i++)
        if (strcmp(buses[i].family, family) == 0 && buses[i].ranks == ranks)
            return &buses[i];
    return NULL;
}

/* NCCL_ALGO allows it: a plain list for all collectives; other forms are not modelled. */
static bool algo_allowed(const char *list, const char *algo)
{
    bool invert = list && *list == '^', named = false;

    if (!list)
        return true;
    for (list += invert; *list; list += *list == ',') {
        size_t len = strcspn(list, ",");

        named |= strlen(algo) == len && strncasecmp(algo, list, len) == 0;
        list += len;
    }
    return named != invert;
}

static float least(float a, float b)
{
    return a < b ? a : b;
}

static float ring_bus(const struct symtuner_call *call, const struct bus *bus, int proto)
{
    static const float ll_max[] = {87.7f, 141.0f, 282.0f};
    float per_channel = call->nccl < 22900 ? 73.4f : call->nccl < 22905 ? 34.5f : 40.0f;

    if (proto == SYMTUNER_LL)
        return least(ll_max[call->arch >= 100 ? 2 : call->arch >= 90], bus->ring * 0.5f);
    if (proto == SYMTUNER_LL128)
        return least(bus->ring * 0.92f, call->arch >= 100 ? 16 * per_channel : bus->ring);
    return bus->ring;
}

static float tree_bus(const struct symtuner_call *call, const struct bus *bus, int proto)
{
    float simple = call->nccl < 22900 ? bus->tree_old : bus->tree;

    return proto == SYMTUNER_LL       ? simple / 3.8f
           : proto == SYMTUNER_LL128 ? simple * 7.0f / 9.0f
                                      : simple;
}

/* Operations and types that multicast can reduce; copies need nothing. */
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

/* Bandwidth of the algorithm, after the ratio of bus to result. */
static float nvls_bw(const struct symtuner_call *call, const struct bus *bus)
{
    float ranks = (float)call->ranks, share = (ranks - 1) / ranks;
    float in = bus->nvls_in * (call->arch >= 100 ? 0.74f : 0.85f) * share;

    if (call->nccl < 22800)
        return call->coll == SYMTUNER_ALLREDUCE
                   ? ranks * least(bus->nvls_in, bus->nvls_out) * 5.0f / 6.0f
                   : ranks * least(bus->nvls_in * share, bus->nvls_out * 0.9f);
    if (call->coll != SYMTUNER_ALLREDUCE)
        return ranks * least(in * share, bus->nvls_out);
    return ranks * least(in * 2, bus->nvls_out) * ranks / (2 * (ranks - 1));
}

bool st_general_table(const struct symtuner_call *call, const char *family,
                      float table[SYMTUNER_ALGOS * SYMTUNER_PROTOS])
{
    const struct bus *bus = find_bus(family, call->ranks);
    bool ar = call->coll == SYMTUNER_ALLREDUCE;
    bool all = call->coll == SYMTUNER_ALLGATHER || call->coll == SYMTUNER_REDUCESCATTER;
    int steps = ar ? 2 * (call->ranks - 1) : all ? call->ranks - 1 : call->ranks;
    uint64_t bytes = call->count * (uint64_t)symtuner_dtype_size((int)call->dtype) *
                     (uint64_t)(all ? call->ranks : 1) * (uint64_t)call->group;
    int log2_64 = bytes >= 64 ? (int)log2((double)(bytes >> 6)) : -1;

    if (!bus || call->nodes != 1 || call->nccl < 22700 || call->nccl >= 23100)
        return false;
    for (int i = 0; i < SYMTUNER_ALGOS * SYMTUNER_PROTOS; i++)
        table[i] = -1.0f;
    for (int p = 0; p < SYMTUNER_PROTOS; p++) {
        const float *hop = step_us[call->nvlink != 0][0];
        float bw, us;

        if (p == SYMTUNER_LL128 && !call->nvlink)
            continue;
        if (ar && algo_allowed(call->algo, "tree")) {
            bw = tree_bus(call, bus, p) * 0.5f;
            if (log2_64 >= 0 && log2_64 < 23)
                bw *= tree_share[p][log2_64];
            us = base_us[0][p] + 2 * (float)(call->ranks - 1) * hop[p];
            table[SYMTUNER_TREE * SYMTUNER_PROTOS + p] = us + (float)bytes / (1000 * bw);
        }
        if (algo_allowed(call->algo, "ring")) {
            hop = step_us[call->nvlink != 0][1];
            bw = ring_bus(call, bus, p) * (float)call->ranks / (float)steps;
            us = base_us[1][p] + (ar || all ? (float)steps : 1.0f) * hop[p];
            table[SYMTUNER_RING * SYMTUNER_PROTOS + p] = us + (float)bytes / (1000 * bw);
        }
    }
    if (call->multicast && bus->nvls_in > 0 && (ar || all) && nvls_can(call) &&
        algo_allowed(call->algo, "nvls") && call->ranks >= (call->nccl < 22807 ? 3 : 2))
        table[SYMTUNER_NVLS * SYMTUNER_PROTOS + SYMTUNER_SIMPLE] =
            nvls_us + (float)bytes / (1000 * nvls_bw(call, bus));
    return true;
}
