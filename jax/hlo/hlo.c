/* SPDX-License-Identifier: Apache-2.0 */
/* hlo.c - replace collectives in a serialized HloModuleProto. */
#include "jax/hlo/hlo.h"
#include "jax/hlo/call.h"
#include "jax/hlo/fields.h"
#include "jax/hlo/join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct edit {
    struct hlo_call call;
    char target[64]; /* target of our call that replaces the collective; "": XLA keeps it */
    int flat;
    int ours;   /* 1: JAX wrote our call itself; symtuner_ffi_hlo_call() does not list it */
    int shares; /* 1: our call puts its result into the buffer of its operand */
};

struct symtuner_hlo {
    struct hlo_module module;
    struct hlo_devices devices;
    struct edit *edits; /* in the order of the instructions */
    int count;
    struct hlo_joins joins;
    struct hlo_out out;
};

static int fail(const char *reason, char *why, size_t why_size)
{
    snprintf(why, why_size, "%s", reason);
    return -1;
}

static int count_calls(const struct hlo_module *module)
{
    int count = 0;

    for (size_t i = 0; i < module->instruction_count; i++)
        count +=
            hlo_call_is(&module->instructions[i]) || hlo_call_is_ours(&module->instructions[i]);
    return count;
}

static void judge(struct symtuner_hlo *hlo, const struct hlo_computation *computation,
                  const struct hlo_instruction *in, const char *no_devices)
{
    struct edit *edit = &hlo->edits[hlo->count];

    edit->ours = hlo_call_is_ours(in);
    if (edit->ours)
        edit->call.in = in;
    else
        hlo_call_judge(&hlo->module, computation, in, &hlo->devices, no_devices, &edit->call);
    edit->shares = hlo_call_may_share(&hlo->module, computation, in);
    hlo->count++;
}

static const char *judge_all(struct symtuner_hlo *hlo)
{
    const struct hlo_module *module = &hlo->module;
    int count = count_calls(module);
    const char *no_devices;

    if (count == 0)
        return NULL;
    no_devices = hlo_devices_read(module->devices, &hlo->devices);
    hlo->edits = calloc((size_t)count, sizeof *hlo->edits);
    if (hlo->edits == NULL)
        return "memory is short";
    for (size_t c = 0; c < module->computation_count; c++) {
        const struct hlo_computation *computation = &module->computations[c];

        for (size_t i = 0; i < computation->count; i++) {
            const struct hlo_instruction *in = &module->instructions[computation->first + i];

            if (hlo_call_is(in) || hlo_call_is_ours(in))
                judge(hlo, computation, in, no_devices);
        }
    }
    return NULL;
}

int symtuner_ffi_hlo_open(const void *bytes, size_t size, struct symtuner_hlo **module, char *why,
                          size_t why_size)
{
    struct symtuner_hlo *hlo = calloc(1, sizeof *hlo);
    const char *reason = "memory is short";

    if (hlo != NULL) {
        reason = hlo_module_read((struct hlo_bytes){bytes, size}, &hlo->module);
        if (reason == NULL)
            reason = judge_all(hlo);
    }
    if (reason != NULL) {
        symtuner_ffi_hlo_close(hlo);
        return fail(reason, why, why_size);
    }
    *module = hlo;
    return 0;
}

int64_t symtuner_ffi_hlo_long(void)
{
    return HLO_LONG;
}

int symtuner_ffi_hlo_name(const struct symtuner_hlo *hlo, char *text, size_t size)
{
    hlo_text(hlo->module.name, text, size);
    return 0;
}

/* Return the i-th collective of XLA's in the module, or NULL. Our own calls do not count. */
static struct edit *find_collective(const struct symtuner_hlo *hlo, int i)
{
    for (int e = 0; i >= 0 && e < hlo->count; e++)
        if (!hlo->edits[e].ours && i-- == 0)
            return &hlo->edits[e];
    return NULL;
}

int symtuner_ffi_hlo_call(const struct symtuner_hlo *hlo, int i, struct symtuner_hlo_call *call)
{
    const struct edit *edit = find_collective(hlo, i);
    const struct hlo_call *from;

    if (edit == NULL)
        return -1;
    from = &edit->call;
    memset(call, 0, sizeof *call);
    hlo_text(from->in->name, call->name, sizeof call->name);
    call->column = hlo_source_line(&hlo->module, from->in, call->where, sizeof call->where);
    snprintf(call->why, sizeof call->why, "%s", from->why != NULL ? from->why : "");
    call->bytes = from->bytes;
    call->coll = from->coll;
    call->op = from->op;
    call->rows = from->groups.rows;
    call->ranks = from->groups.ranks;
    call->groups = from->groups.ids;
    call->places = from->groups.places;
    return 0;
}

int symtuner_ffi_hlo_replace(struct symtuner_hlo *hlo, int i, const char *target, int flat)
{
    struct edit *edit = find_collective(hlo, i);

    if (edit == NULL || edit->call.why != NULL || target[0] == '\0' ||
        strlen(target) >= sizeof edit->target)
        return -1;
    strcpy(edit->target, target);
    edit->flat = flat;
    return 0;
}

int symtuner_ffi_hlo_in_place(const struct symtuner_hlo *hlo)
{
    int count = 0;

    for (int i = 0; i < hlo->count; i++)
        count += hlo->edits[i].ours && hlo->edits[i].shares;
    return count;
}

/* ---- calls that several all-reduces share --------------------------------------------------- */
static int is_changed(const struct edit *edit)
{
    return edit->ours ? edit->shares : edit->target[0] != '\0';
}

/* Write the fields of one of our calls, but not the field that lets it put its result into its
 * operand's buffer: put_instruction() adds this field. */
static void put_call(const struct edit *edit, struct hlo_out *out)
{
    if (edit->ours)
        hlo_put(out, edit->call.in->body);
    else
        hlo_call_put(&edit->call, edit->target, edit->flat, out);
}

/* If the call of ${edit} may share one longer call with other all-reduces, add it to hlo->joins.
 * Returns 0, or -1 if memory is short. */
static int offer(struct symtuner_hlo *hlo, const struct hlo_computation *computation,
                 const struct edit *edit)
{
    const struct hlo_call *call = &edit->call;
    struct hlo_shape shape;
    struct hlo_out body = {0};
    int result = 0;

    if (!(edit->ours || edit->target[0] != '\0') ||
        !hlo_call_may_join(&hlo->module, computation, call->in, &shape))
        return 0;
    put_call(edit, &body);
    if (body.failed || hlo_joins_add(&hlo->joins, computation, call->in, &shape,
                                     (struct hlo_bytes){body.at, body.size}) != 0)
        result = -1;
    free(body.at);
    return result;
}

int symtuner_ffi_hlo_join(struct symtuner_hlo *hlo, char *why, size_t why_size)
{
    const struct hlo_module *module = &hlo->module;
    int e = 0, result = 0;

    hlo_joins_free(&hlo->joins);
    for (size_t c = 0; result == 0 && c < module->computation_count; c++) {
        const struct hlo_computation *computation = &module->computations[c];
        const struct hlo_instruction *end =
            module->instructions + computation->first + computation->count;

        for (; result == 0 && e < hlo->count && hlo->edits[e].call.in < end; e++)
            result = offer(hlo, computation, &hlo->edits[e]);
    }
    if (result == 0)
        result = hlo_joins_decide(&hlo->joins, module);
    return result == 0 ? 0 : fail("memory is short", why, why_size);
}

int symtuner_ffi_hlo_joined(const struct symtuner_hlo *hlo, int i,
                            struct symtuner_hlo_joined *joined)
{
    const struct hlo_bucket *bucket;
    const struct hlo_member *first;

    if (i < 0 || (size_t)i >= hlo->joins.bucket_count)
        return -1;
    bucket = &hlo->joins.buckets[i];
    first = &hlo->joins.members[bucket->first];
    *joined = (struct symtuner_hlo_joined){.count = bucket->count,
                                           .attributes = (const char *)first->attributes.at,
                                           .size = first->attributes.size};
    return 0;
}

int symtuner_ffi_hlo_part(struct symtuner_hlo *hlo, int i)
{
    if (i < 0 || (size_t)i >= hlo->joins.bucket_count)
        return -1;
    hlo_joins_part(&hlo->joins, (size_t)i);
    return 0;
}

/* ---- writing -------------------------------------------------------------------------------- */
static int compare_edits(const void *a, const void *b)
{
    const struct hlo_instruction *x = ((const struct edit *)a)->call.in;
    const struct hlo_instruction *y = ((const struct edit *)b)->call.in;

    return (x > y) - (x < y);
}

/* Return the edit of an instruction, or NULL if the instruction is not changed. */
static const struct edit *find_edit(const struct symtuner_hlo *hlo,
                                    const struct hlo_instruction *in)
{
    struct edit key = {.call.in = in};
    const struct edit *edit =
        hlo->count == 0 ? NULL
                        : bsearch(&key, hlo->edits, (size_t)hlo->count, sizeof key, compare_edits);

    return edit != NULL && is_changed(edit) ? edit : NULL;
}

static int has_edits(const struct symtuner_hlo *hlo, const struct hlo_computation *computation)
{
    for (size_t i = 0; i < computation->count; i++) {
        const struct hlo_instruction *in = &hlo->module.instructions[computation->first + i];

        if (find_edit(hlo, in) != NULL || hlo_joins_find(&hlo->joins, in) != NULL)
            return 1;
    }
    return 0;
}

static void put_instruction(const struct symtuner_hlo *hlo, const struct hlo_instruction *in,
                            struct hlo_out *out)
{
    const struct hlo_member *member = hlo_joins_find(&hlo->joins, in);
    const struct edit *edit = find_edit(hlo, in);
    struct hlo_out body = {0};

    if (member != NULL) {
        hlo_call_share(&body);
        hlo_joins_put(&hlo->joins, member, HLO_COMPUTATION_INSTRUCTIONS,
                      (struct hlo_bytes){body.at, body.size}, out);
    } else if (edit != NULL) {
        put_call(edit, &body);
        if (edit->shares)
            hlo_call_share(&body);
        hlo_put_bytes_field(out, HLO_COMPUTATION_INSTRUCTIONS,
                            (struct hlo_bytes){body.at, body.size});
    } else
        hlo_put_bytes_field(out, HLO_COMPUTATION_INSTRUCTIONS, in->body);
    out->failed |= body.failed;
    free(body.at);
}

/* Write a computation, whose fields are in ${rest}. If some of its instructions share calls, the
 * instructions need a new order (hlo_joins_order()). Then write all instructions as soon as the
 * first one comes in ${rest}, and skip the instructions that come later in ${rest}. */
static void put_computation(const struct symtuner_hlo *hlo,
                            const struct hlo_computation *computation, struct hlo_bytes rest,
                            struct hlo_out *out)
{
    const struct hlo_instruction *in = &hlo->module.instructions[computation->first];
    struct hlo_field field;
    size_t *order, i = 0;
    int joins = hlo_joins_order(&hlo->joins, computation, &order);

    out->failed |= joins && order == NULL;
    while (hlo_next(&rest, &field) == 1) {
        if (field.number != HLO_COMPUTATION_INSTRUCTIONS)
            hlo_put(out, field.whole);
        else if (!joins)
            put_instruction(hlo, &in[i++], out);
        else
            for (; order != NULL && i < computation->count; i++)
                put_instruction(hlo, &hlo->module.instructions[order[i]], out);
    }
    free(order);
}

int symtuner_ffi_hlo_write(struct symtuner_hlo *hlo, const void **bytes, size_t *size, char *why,
                           size_t why_size)
{
    struct hlo_bytes rest = hlo->module.bytes;
    const struct hlo_computation *next = hlo->module.computations;
    struct hlo_out computation = {0};
    struct hlo_field field;

    hlo->out.size = 0;
    while (hlo_next(&rest, &field) == 1) {
        if (field.number != HLO_MODULE_COMPUTATIONS || !has_edits(hlo, next++)) {
            hlo_put(&hlo->out, field.whole);
            continue;
        }
        computation.size = 0;
        put_computation(hlo, next - 1, field.bytes, &computation);
        hlo_put_bytes_field(&hlo->out, field.number,
                            (struct hlo_bytes){computation.at, computation.size});
    }
    hlo->out.failed |= computation.failed;
    free(computation.at);
    if (hlo->out.failed)
        return fail("memory is short", why, why_size);
    *bytes = hlo->out.at;
    *size = hlo->out.size;
    return 0;
}

void symtuner_ffi_hlo_close(struct symtuner_hlo *hlo)
{
    if (hlo == NULL)
        return;
    for (int i = 0; i < hlo->count; i++)
        hlo_groups_free(&hlo->edits[i].call.groups);
    hlo_joins_free(&hlo->joins);
    hlo_module_free(&hlo->module);
    hlo_devices_free(&hlo->devices);
    free(hlo->edits);
    free(hlo->out.at);
    free(hlo);
}
