/* SPDX-License-Identifier: Apache-2.0 */
/* overlap.c - whether XLA can run a collective beside matrix products. */
#include "jax/hlo/call.h"
#include "jax/hlo/fields.h"

#include <stdlib.h>
#include <string.h>

/* What is known about a computation: whether it has a matrix product or a convolution. */
enum { UNKNOWN, HAS_NONE, HAS_PRODUCT };

/* We search this many computations deep, and assume that deeper ones have a product. */
enum { DEPTH = 100 };

struct known {
    char *of;  /* [computation]: UNKNOWN, HAS_NONE or HAS_PRODUCT */
    int depth; /* how many computations, each called by the one before, are being searched */
};

static int calls_product(const struct hlo_module *module, const struct hlo_instruction *in,
                         struct known *known);

/* Is ${in} a matrix product or a convolution, or does it call one? */
static int is_product(const struct hlo_module *module, const struct hlo_instruction *in,
                      struct known *known)
{
    static const char *const products[] = {"dot", "ragged-dot", "scaled-dot", "convolution"};
    static const char library[] = "__cu"; /* custom calls of cuBLAS and cuDNN */

    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++)
        if (hlo_is(in->opcode, products[i]))
            return 1;
    if (hlo_is(in->opcode, "custom-call") && in->target.size >= sizeof library - 1 &&
        memcmp(in->target.at, library, sizeof library - 1) == 0)
        return 1;
    return in->called_count > 0 && calls_product(module, in, known);
}

static int has_product(const struct hlo_module *module, const struct hlo_computation *computation,
                       struct known *known)
{
    char *answer = &known->of[computation - module->computations];

    if (*answer == UNKNOWN && known->depth == DEPTH)
        return 1;
    if (*answer == UNKNOWN) {
        *answer = HAS_NONE; /* also ends a cycle, which a valid module does not have */
        known->depth++;
        for (size_t i = 0; i < computation->count && *answer == HAS_NONE; i++)
            if (is_product(module, &module->instructions[computation->first + i], known))
                *answer = HAS_PRODUCT;
        known->depth--;
    }
    return *answer == HAS_PRODUCT;
}

static int calls_product(const struct hlo_module *module, const struct hlo_instruction *in,
                         struct known *known)
{
    struct hlo_numbers ids = {0};
    int found = hlo_ids_read(in, HLO_INSTRUCTION_CALLED_COMPUTATION_IDS, &ids) != 0;

    for (size_t i = 0; i < ids.count && !found; i++) {
        const struct hlo_computation *called = hlo_computation_find(module, ids.at[i]);

        found = called != NULL && has_product(module, called, known);
    }
    free(ids.at);
    return found;
}

/* A search through a computation. Its arrays have an element for each instruction. */
struct search {
    const struct hlo_module *module;
    const struct hlo_computation *computation;
    char *seen;
    uint32_t *todo; /* instructions that were seen, but not yet followed */
    size_t count;
};

static void see(struct search *s, size_t number)
{
    if (s->seen[number])
        return;
    s->seen[number] = 1;
    s->todo[s->count++] = (uint32_t)number;
}

/* Mark the instructions that use the result of ${in} as seen. */
static void see_users(struct search *s, const struct hlo_instruction *in)
{
    size_t count;
    const struct hlo_use *uses = hlo_uses_find(s->module, s->computation, in, &count);

    for (size_t i = 0; i < count; i++)
        see(s, uses[i].user - s->computation->first);
}

/* Mark the operands of ${in} as seen. Returns 0, or -1 if memory is short. */
static int see_operands(struct search *s, const struct hlo_instruction *in)
{
    struct hlo_numbers ids = {0};
    int result = hlo_ids_read(in, HLO_INSTRUCTION_OPERAND_IDS, &ids);

    for (size_t i = 0; i < ids.count; i++) {
        const struct hlo_instruction *operand =
            hlo_instruction_find(s->module, s->computation, ids.at[i]);

        if (operand != NULL)
            see(s, (size_t)(operand - s->module->instructions) - s->computation->first);
    }
    free(ids.at);
    return result;
}

/* Mark as seen all instructions that need the result of instruction ${number}, even indirectly, and
 * all whose results it needs. Returns 0, or -1 if memory is short. */
static int see_related(struct search *s, size_t number)
{
    const struct hlo_instruction *all = s->module->instructions + s->computation->first;
    int result = 0;

    see(s, number);
    while (s->count > 0)
        see_users(s, &all[s->todo[--s->count]]);
    s->seen[number] = 0; /* start at it again, this time towards the operands */
    see(s, number);
    while (s->count > 0 && result == 0)
        result = see_operands(s, &all[s->todo[--s->count]]);
    return result;
}

int hlo_overlaps(const struct hlo_module *module, const struct hlo_computation *computation,
                 const struct hlo_instruction *in)
{
    const size_t number = (size_t)(in - module->instructions) - computation->first;
    struct search s = {
        .module = module,
        .computation = computation,
        .seen = calloc(computation->count, 1),
        .todo = calloc(computation->count, sizeof *s.todo),
    };
    struct known known = {.of = calloc(module->computation_count, 1)};
    int found =
        s.seen == NULL || s.todo == NULL || known.of == NULL || see_related(&s, number) != 0;

    for (size_t i = 0; i < computation->count && !found; i++)
        found =
            !s.seen[i] && is_product(module, &module->instructions[computation->first + i], &known);
    free(s.seen);
    free(s.todo);
    free(known.of);
    return found;
}
