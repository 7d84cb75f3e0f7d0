/* SPDX-License-Identifier: Apache-2.0 */
/* describe.c - the status and the description of a handle over several boxes. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/group/error.h"
#include "kernels/nodes/nodes.h"

ncclResult_t ar_nodes_status(symtuner_ar *h)
{
    symtuner_ar *box = h->nodes->box;
    ncclResult_t result = box != NULL ? ar_status(box) : ncclSuccess;

    return result == ncclSuccess ? result
                                 : ar_fail(h, result, "in the box: %.200s", symtuner_ar_error(box));
}

/* A text in a buffer of ${room} bytes. add() leaves out what does not fit. */
struct text {
    char *at;
    size_t room, need; /* ${need} is the length of the whole text */
};

static void __attribute__((format(printf, 2, 3))) add(struct text *t, const char *format, ...)
{
    char line[200];
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (n > 0 && t->need + (size_t)n < t->room)
        memcpy(t->at + t->need, line, (size_t)n + 1);
    t->need += n > 0 ? (size_t)n : 0;
}

static void add_figures(struct text *t, const struct ar_nodes_figures *f)
{
    static const char *const ways[AR_WAYS] = {"NCCL over all ranks", "in the box",
                                              "between the boxes"};

    add(t, "start-up figures, us for messages of");
    for (int i = 0; i < AR_NODES_SIZES; i++)
        add(t, " %llu", (unsigned long long)ar_nodes_size[i]);
    add(t, " bytes:\n");
    for (int w = 0; w < AR_WAYS; w++) {
        add(t, "  %-20s", ways[w]);
        for (int i = 0; i < AR_NODES_SIZES; i++)
            add(t, " %9.1f", (double)f->us[w][i]);
        add(t, "\n");
    }
}

/* Write the choices of this run for messages of up to 1 TiB as rules. With these rules later runs
 * choose the same, whatever they measure. */
static void add_rules(struct text *t, const struct ar_nodes_figures *f, int ranks)
{
    const uint64_t end = 1ull << 41; /* the last choice is for messages of end / 2, 1 TiB */
    uint64_t from = 0;
    int number = 1;

    add(t, "rules that keep this choice:\n");
    for (uint64_t bytes = ar_nodes_size[0]; bytes <= end; bytes *= 2) {
        int pieces = ar_nodes_pieces(f, bytes / 2);

        if (bytes < end && ar_nodes_pieces(f, bytes) == pieces)
            continue;
        add(t, "  [kernels nodes-%d]\n  ranks = %d\n  bytes = %llu..", number++, ranks,
            (unsigned long long)from);
        if (bytes < end)
            add(t, "%llu", (unsigned long long)bytes - 1);
        add(t, "\n  network-pieces = %d\n", pieces);
        from = bytes;
    }
}

size_t ar_nodes_describe(const symtuner_ar *h, char *text, size_t length)
{
    const struct ar_nodes *nodes = h->nodes;
    struct text t = {text, length, 0};
    size_t need;

    if (nodes->asked) {
        add_figures(&t, &nodes->figures);
        add_rules(&t, &nodes->figures, h->ranks);
    }
    need = ar_rules_print(h->rules, h->rules_note, t.need < length ? text + t.need : text,
                          t.need < length ? length - t.need : 0);
    t.need += need;
    if (nodes->box == NULL)
        return t.need;
    add(&t, "in the box: ");
    return t.need + symtuner_ar_describe(nodes->box, t.need < length ? text + t.need : text,
                                         t.need < length ? length - t.need : 0);
}
