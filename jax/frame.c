/* SPDX-License-Identifier: Apache-2.0 */
/* frame.c - read and check an XLA call frame. */
#include "jax/frame.h"
#include "jax/hlo/types.h"

#include <stdio.h>
#include <string.h>

#define MAX_RANKS 16
#define MAX_ROWS  65536
#define OP_SUM    0
#define OP_AVG    4
#define OPS       5

/* read_buffers() passes an XLA_FFI_DataType to hlo_type_find(), which expects a PrimitiveType of
 * xla_data.proto. So the two enumerations must number the types in the same way. */
_Static_assert(XLA_FFI_DataType_S8 == 2 && XLA_FFI_DataType_F8E4M3FN == 20 &&
                   XLA_FFI_DataType_C128 == 18,
               "XLA_FFI_DataType has the numbers of PrimitiveType");

int ffi_frame_is_metadata(const XLA_FFI_CallFrame *frame, uint32_t traits)
{
    XLA_FFI_Metadata_Extension *extension;

    if (frame == NULL || frame->extension_start == NULL ||
        frame->extension_start->type != XLA_FFI_Extension_Metadata)
        return 0;
    extension = (XLA_FFI_Metadata_Extension *)frame->extension_start;
    if (extension->metadata != NULL) {
        extension->metadata->api_version.major_version = FFI_MAJOR;
        extension->metadata->api_version.minor_version = FFI_MINOR;
        extension->metadata->traits = traits;
    }
    return 1;
}

/* Return the number of elements of ${buffer}, or -1 if its shape is not valid. */
static int64_t count_elements(const XLA_FFI_Buffer *buffer)
{
    int64_t count = 1;

    if (buffer->rank < 0 || (buffer->rank > 0 && buffer->dims == NULL))
        return -1;
    for (int64_t i = 0; i < buffer->rank; i++)
        if (buffer->dims[i] < 0 || __builtin_mul_overflow(count, buffer->dims[i], &count))
            return -1;
    return count;
}

static const void *find_attribute(const XLA_FFI_Attrs *attrs, const char *name, int type)
{
    for (int64_t i = 0; i < attrs->size; i++) {
        const XLA_FFI_ByteSpan *span = attrs->names[i];

        if (span != NULL && span->len == strlen(name) && memcmp(span->ptr, name, span->len) == 0)
            return (int)attrs->types[i] == type ? attrs->attrs[i] : NULL;
    }
    return NULL;
}

static int read_int(const XLA_FFI_Attrs *attrs, const char *name, int lowest, int highest,
                    int *value, char *why, size_t why_size)
{
    const XLA_FFI_Scalar *scalar = find_attribute(attrs, name, XLA_FFI_AttrType_SCALAR);
    int32_t v;

    if (scalar == NULL || scalar->dtype != XLA_FFI_DataType_S32 || scalar->value == NULL)
        return ffi_fail(why, why_size, "attribute \"%s\" is missing or not an int32", name);
    memcpy(&v, scalar->value, sizeof v);
    if (v < lowest || v > highest)
        return ffi_fail(why, why_size, "attribute \"%s\" is %d, not %d to %d", name, v, lowest,
                        highest);
    *value = v;
    return 0;
}

/* A call without the attribute "coll" is an all-reduce: in earlier versions there was no other
 * collective, and no such attribute. */
static int read_coll(const XLA_FFI_Attrs *attrs, int *coll, char *why, size_t why_size)
{
    for (int64_t i = 0; i < attrs->size; i++) {
        const XLA_FFI_ByteSpan *span = attrs->names[i];

        if (span != NULL && span->len == 4 && memcmp(span->ptr, "coll", 4) == 0)
            return read_int(attrs, "coll", 0, SYMTUNER_AR_ALL_GATHER, coll, why, why_size);
    }
    *coll = SYMTUNER_AR_ALL_REDUCE;
    return 0;
}

static int read_groups(const XLA_FFI_Attrs *attrs, struct ffi_call *call, char *why,
                       size_t why_size)
{
    const XLA_FFI_Array *array = find_attribute(attrs, "groups", XLA_FFI_AttrType_ARRAY);

    if (read_int(attrs, "ranks", 1, MAX_RANKS, &call->ranks, why, why_size) != 0)
        return -1;
    if (array == NULL || array->dtype != XLA_FFI_DataType_S64 || array->data == NULL)
        return ffi_fail(why, why_size, "attribute \"groups\" is missing or not an array of int64");
    if (array->size == 0 || array->size % (size_t)call->ranks != 0 ||
        array->size / (size_t)call->ranks > MAX_ROWS)
        return ffi_fail(why, why_size,
                        "attribute \"groups\" has %zu ids, not a multiple of %d ranks", array->size,
                        call->ranks);
    call->groups = array->data;
    call->rows = (int)(array->size / (size_t)call->ranks);
    return 0;
}

/* Do the lengths of operand and result fit together? In an all-reduce they are equal. In a
 * reduce-scatter or an all-gather the longer one is ${call}->ranks times as long as the other. */
static int do_fit(const struct ffi_call *call, int64_t in, int64_t out)
{
    int64_t shorter = call->coll == SYMTUNER_AR_ALL_GATHER ? in : out;
    int64_t longer = call->coll == SYMTUNER_AR_ALL_GATHER ? out : in;

    if (call->coll != SYMTUNER_AR_ALL_REDUCE &&
        __builtin_mul_overflow(shorter, call->ranks, &shorter))
        return 0;
    return in >= 0 && out >= 0 && shorter == longer;
}

static int read_buffers(const XLA_FFI_CallFrame *frame, struct ffi_call *call, char *why,
                        size_t why_size)
{
    const XLA_FFI_Buffer *in, *out;
    const struct hlo_type *type;
    int64_t count, most;

    if (frame->args.size != 1 || frame->rets.size != 1 || frame->args.args == NULL ||
        frame->rets.rets == NULL || frame->args.types == NULL || frame->rets.types == NULL)
        return ffi_fail(why, why_size, "one operand and one result are expected, not %lld and %lld",
                        (long long)frame->args.size, (long long)frame->rets.size);
    if (frame->args.types[0] != XLA_FFI_ArgType_BUFFER ||
        frame->rets.types[0] != XLA_FFI_RetType_BUFFER || frame->args.args[0] == NULL ||
        frame->rets.rets[0] == NULL)
        return ffi_fail(why, why_size, "the operand and the result must be buffers");
    in = frame->args.args[0];
    out = frame->rets.rets[0];
    type = hlo_type_find((int)in->dtype);
    if (type == NULL)
        return ffi_fail(why, why_size, "XLA's element type %d is not one that NCCL has",
                        (int)in->dtype);
    count = count_elements(in);
    most = count_elements(out);
    if (out->dtype != in->dtype || !do_fit(call, count, most))
        return ffi_fail(
            why, why_size,
            call->coll == SYMTUNER_AR_ALL_REDUCE
                ? "operand and result differ in type or shape, or a shape is not valid"
                : "operand and result differ in type, or one is not %d times as long as the other",
            call->ranks);
    if (count > most) {
        int64_t longer = count;

        count = most;
        most = longer;
    }
    if (most > INT64_MAX / 64)
        return ffi_fail(why, why_size, "%lld elements are too many", (long long)most);
    if (type->parts == 2 && call->op != OP_SUM && call->op != OP_AVG)
        return ffi_fail(why, why_size, "%s can be summed and averaged only", type->name);
    if (count > 0 && (in->data == NULL || out->data == NULL))
        return ffi_fail(why, why_size, "the %s has no memory",
                        in->data == NULL ? "operand" : "result");
    call->send = in->data;
    call->recv = out->data;
    call->count = (size_t)count * (size_t)type->parts;
    call->bytes = (size_t)most * (size_t)type->size;
    call->dtype = type->nccl;
    return 0;
}

static int check_attributes(const XLA_FFI_Attrs *attrs, char *why, size_t why_size)
{
    if (attrs->size >= 0 && (attrs->size == 0 || (attrs->names != NULL && attrs->types != NULL &&
                                                  attrs->attrs != NULL)))
        return 0;
    return ffi_fail(why, why_size, "the call frame has no valid attributes");
}

int ffi_frame_read_flat(const XLA_FFI_CallFrame *frame, struct ffi_flat *flat, char *why,
                        size_t why_size)
{
    const XLA_FFI_Attrs *attrs = &frame->attrs;
    const XLA_FFI_Array *array;

    memset(flat, 0, sizeof *flat);
    if (check_attributes(attrs, why, why_size) != 0)
        return -1;
    array = find_attribute(attrs, "flat", XLA_FFI_AttrType_ARRAY);
    if (array == NULL)
        return 0;
    if (read_int(attrs, "ranks", 1, MAX_RANKS, &flat->ranks, why, why_size) != 0)
        return -1;
    if (array->dtype != XLA_FFI_DataType_S64 || array->data == NULL || array->size == 0 ||
        array->size % (size_t)flat->ranks != 0 || array->size / (size_t)flat->ranks > FFI_FLAT_ROWS)
        return ffi_fail(why, why_size,
                        "attribute \"flat\" is not an array of 1 to %d rows of %d int64",
                        FFI_FLAT_ROWS, flat->ranks);
    flat->ids = array->data;
    flat->rows = (int)(array->size / (size_t)flat->ranks);
    return 0;
}

int ffi_frame_read(const XLA_FFI_CallFrame *frame, struct ffi_call *call, char *why,
                   size_t why_size)
{
    const XLA_FFI_Attrs *attrs = &frame->attrs;

    memset(call, 0, sizeof *call);
    if (check_attributes(attrs, why, why_size) != 0 ||
        read_coll(attrs, &call->coll, why, why_size) != 0 ||
        read_int(attrs, "op", 0, OPS - 1, &call->op, why, why_size) != 0 ||
        read_groups(attrs, call, why, why_size) != 0 ||
        read_buffers(frame, call, why, why_size) != 0)
        return -1;
    return 0;
}
