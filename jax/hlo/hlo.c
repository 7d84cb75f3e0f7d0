/* SPDX-License-Identifier: Apache-2.0 */
/* hlo.c - replace collectives in a serialized HloModuleProto. */
#include "jax/hlo/hlo.h"
#include "jax/hlo/call.h"
#include "jax/hlo/fields.h"
#include "jax/hlo/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct edit {
    struct hlo_call call;
    char target[64]; /* "": the collective stays XLA's */
    int flat;
    int ours;   /* 1: JAX wrote this call of ours, so it is not shown to the caller */
    int shares; /* 1: our call puts its result into the buffer of its operand */
};

struct symtuner_hlo {
    struct hlo_module module;
    struct hlo_devices devices;
    struct edit *edits; /* in the order of the instructions */
    int count;
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

int symtuner_ffi_hlo_name(const struct symtuner_hlo *hlo, char *text, size_t size)
{
    hlo_text(hlo->module.name, text, size);
    return 0;
}

/* Return the i-th collective that is XLA's, or NULL. */
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
    hlo_source_line(&hlo->module, from->in, call->where, sizeof call->where);
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

/* ---- writing -------------------------------------------------------------------------------- */
static int is_changed(const struct edit *edit)
{
    return edit->ours ? edit->shares : edit->target[0] != '\0';
}

/* Return the edit of the instruction in ${field}, or NULL if the field is not changed. Edits have
 * the order of their instructions. *next is the number of the next edit. */
static const struct edit *find_edit(const struct symtuner_hlo *hlo, const struct hlo_field *field,
                                    int *next)
{
    const struct edit *edit;

    if (field->number != HLO_COMPUTATION_INSTRUCTIONS || *next == hlo->count ||
        hlo->edits[*next].call.in->body.at != field->bytes.at)
        return NULL;
    edit = &hlo->edits[(*next)++];
    return is_changed(edit) ? edit : NULL;
}

/* Is an instruction in these bytes changed? If not, set *next to the first edit after them. */
static int has_edits(const struct symtuner_hlo *hlo, struct hlo_bytes bytes, int *next)
{
    int last = *next, changed = 0;

    for (; last < hlo->count && hlo->edits[last].call.in->body.at < bytes.at + bytes.size; last++)
        changed |= is_changed(&hlo->edits[last]);
    if (!changed)
        *next = last;
    return changed;
}

static void put_computation(const struct symtuner_hlo *hlo, struct hlo_bytes rest, int *next,
                            struct hlo_out *out)
{
    struct hlo_out instruction = {0};
    struct hlo_field field;

    while (hlo_next(&rest, &field) == 1) {
        const struct edit *edit = find_edit(hlo, &field, next);

        if (edit == NULL) {
            hlo_put(out, field.whole);
            continue;
        }
        instruction.size = 0;
        if (edit->ours)
            hlo_put(&instruction, edit->call.in->body);
        else
            hlo_call_put(&edit->call, edit->target, edit->flat, &instruction);
        if (edit->shares)
            hlo_call_share(&instruction);
        hlo_put_bytes_field(out, field.number,
                            (struct hlo_bytes){instruction.at, instruction.size});
    }
    out->failed |= instruction.failed;
    free(instruction.at);
}

int symtuner_ffi_hlo_write(struct symtuner_hlo *hlo, const void **bytes, size_t *size, char *why,
                           size_t why_size)
{
    struct hlo_bytes rest = hlo->module.bytes;
    struct hlo_out computation = {0};
    struct hlo_field field;
    int next = 0;

    hlo->out.size = 0;
    while (hlo_next(&rest, &field) == 1) {
        if (field.number != HLO_MODULE_COMPUTATIONS || !has_edits(hlo, field.bytes, &next)) {
            hlo_put(&hlo->out, field.whole);
            continue;
        }
        computation.size = 0;
        put_computation(hlo, field.bytes, &next, &computation);
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
    hlo_module_free(&hlo->module);
    hlo_devices_free(&hlo->devices);
    free(hlo->edits);
    free(hlo->out.at);
    free(hlo);
}
