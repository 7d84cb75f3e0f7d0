/* SPDX-License-Identifier: Apache-2.0 */
/* hostile.c - ways to damage a valid call frame, and words that the handler's error must have. */
#include "test/jax/hostile.h"

#include <stddef.h>
#include <stdint.h>

static void no_args(struct frame *f)
{
    f->frame.args.size = 0;
}

static void two_args(struct frame *f)
{
    f->frame.args.size = 2;
}

static void many_results(struct frame *f)
{
    f->frame.rets.size = 1 << 30;
}

static void null_args(struct frame *f)
{
    f->frame.args.args = NULL;
}

static void null_arg_types(struct frame *f)
{
    f->frame.args.types = NULL;
}

static void null_arg(struct frame *f)
{
    f->arg = NULL;
}

static void null_result(struct frame *f)
{
    f->ret = NULL;
}

static void token_arg(struct frame *f)
{
    f->arg_type = (XLA_FFI_ArgType)7;
}

static void null_data(struct frame *f)
{
    f->in.data = NULL;
}

static void null_out_data(struct frame *f)
{
    f->out.data = NULL;
}

static void s16(struct frame *f)
{
    f->in.dtype = f->out.dtype = XLA_FFI_DataType_S16;
}

static void unknown_type(struct frame *f)
{
    f->in.dtype = f->out.dtype = (XLA_FFI_DataType)9999;
}

static void token_type(struct frame *f)
{
    f->in.dtype = f->out.dtype = XLA_FFI_DataType_TOKEN;
}

static void types_differ(struct frame *f)
{
    f->out.dtype = XLA_FFI_DataType_F64;
}

static void shapes_differ(struct frame *f)
{
    f->out_dims[1] = 8;
}

static void negative_rank(struct frame *f)
{
    f->in.rank = -1;
}

static void null_dims(struct frame *f)
{
    f->in.dims = NULL;
}

static void negative_dim(struct frame *f)
{
    f->in_dims[0] = -6;
}

static void unknown_coll(struct frame *f)
{
    frame_add_coll(f, 3);
}

static void coll_is_i64(struct frame *f)
{
    frame_add_coll(f, 1);
    f->coll.dtype = XLA_FFI_DataType_S64;
}

static void scatter_whole(struct frame *f)
{
    frame_add_coll(f, 1);
    f->out_dims[0] = 6;
}

static void gather_less(struct frame *f)
{
    frame_add_coll(f, 2);
    f->out_dims[1] = 6;
}

static void gather_overflows(struct frame *f)
{
    frame_add_coll(f, 2);
    f->in_dims[0] = INT64_MAX / 2 + 1, f->in_dims[1] = 1;
    f->out_dims[0] = 0;
}

static void huge_dims(struct frame *f)
{
    f->in_dims[0] = f->in_dims[1] = INT64_MAX;
}

static void large_dims(struct frame *f)
{
    f->in_dims[0] = f->out_dims[0] = INT64_MAX / 8;
    f->in_dims[1] = f->out_dims[1] = 1;
}

static void no_attrs(struct frame *f)
{
    f->frame.attrs.size = 0;
}

static void negative_attrs(struct frame *f)
{
    f->frame.attrs.size = -5;
}

static void null_names(struct frame *f)
{
    f->frame.attrs.names = NULL;
}

static void no_op(struct frame *f)
{
    f->name[ATTR_OP].len = 1;
}

static void null_op_name(struct frame *f)
{
    f->names[ATTR_OP] = NULL;
}

static void op_is_text(struct frame *f)
{
    f->types[ATTR_OP] = XLA_FFI_AttrType_STRING;
}

static void op_is_i64(struct frame *f)
{
    f->op.dtype = XLA_FFI_DataType_S64;
}

static void op_null(struct frame *f)
{
    f->op.value = NULL;
}

static void op_too_large(struct frame *f)
{
    f->op_value = 5;
}

static void op_negative(struct frame *f)
{
    f->op_value = -1;
}

static void no_ranks(struct frame *f)
{
    f->frame.attrs.size = 2;
}

static void ranks_zero(struct frame *f)
{
    f->ranks_value = 0;
}

static void ranks_17(struct frame *f)
{
    f->ranks_value = 17;
}

static void groups_scalar(struct frame *f)
{
    f->types[ATTR_GROUPS] = XLA_FFI_AttrType_SCALAR;
}

static void groups_i32(struct frame *f)
{
    f->groups.dtype = XLA_FFI_DataType_S32;
}

static void groups_null(struct frame *f)
{
    f->groups.data = NULL;
}

static void groups_empty(struct frame *f)
{
    f->groups.size = 0;
}

static void groups_ragged(struct frame *f)
{
    f->groups.size = 3;
}

static void groups_huge(struct frame *f)
{
    f->groups.size = (size_t)-2;
}

static void complex_max(struct frame *f)
{
    f->in.dtype = f->out.dtype = XLA_FFI_DataType_C64;
    f->op_value = 2;
}

static void other_devices(struct frame *f)
{
    f->ids[0] = 70;
}

static void other_order(struct frame *f)
{
    f->ids[0] = 1;
    f->ids[1] = 0;
}

static void other_gpu(struct frame *f)
{
    (void)f;
    runtime.ordinal = 5;
}

static void negative_gpu(struct frame *f)
{
    (void)f;
    runtime.ordinal = -1;
}

static void refused(struct frame *f)
{
    (void)f;
    runtime.refuse = 1;
}

static void short_api(struct frame *f)
{
    (void)f;
    runtime.api.struct_size = offsetof(XLA_FFI_Api, XLA_FFI_DeviceOrdinal_Get);
}

static void no_stream_get(struct frame *f)
{
    (void)f;
    runtime.api.XLA_FFI_Stream_Get = NULL;
}

const struct hostile hostile[] = {
    {"no operand", no_args, "one operand and one result"},
    {"two operands", two_args, "one operand and one result"},
    {"2^30 results", many_results, "one operand and one result"},
    {"operands NULL", null_args, "one operand and one result"},
    {"operand types NULL", null_arg_types, "one operand and one result"},
    {"operand NULL", null_arg, "must be buffers"},
    {"result NULL", null_result, "must be buffers"},
    {"operand is no buffer", token_arg, "must be buffers"},
    {"operand without memory", null_data, "operand has no memory"},
    {"result without memory", null_out_data, "result has no memory"},
    {"int16", s16, "element type 3"},
    {"unknown type", unknown_type, "element type 9999"},
    {"token", token_type, "element type 17"},
    {"types differ", types_differ, "differ in type or shape"},
    {"shapes differ", shapes_differ, "differ in type or shape"},
    {"rank -1", negative_rank, "differ in type or shape"},
    {"dims NULL", null_dims, "differ in type or shape"},
    {"negative dimension", negative_dim, "differ in type or shape"},
    {"a collective that does not exist", unknown_coll, "\"coll\" is 3, not 0 to 2"},
    {"coll is int64", coll_is_i64, "\"coll\" is missing or not an int32"},
    {"a reduce-scatter of one part", scatter_whole, "is not 2 times as long as the other"},
    {"an all-gather of less", gather_less, "is not 2 times as long as the other"},
    {"an all-gather that overflows", gather_overflows, "is not 2 times as long as the other"},
    {"product overflows", huge_dims, "differ in type or shape"},
    {"bytes would overflow", large_dims, "are too many"},
    {"no attributes", no_attrs, "\"op\" is missing"},
    {"-5 attributes", negative_attrs, "no valid attributes"},
    {"attribute names NULL", null_names, "no valid attributes"},
    {"no op", no_op, "\"op\" is missing"},
    {"one attribute name NULL", null_op_name, "\"op\" is missing"},
    {"op is text", op_is_text, "\"op\" is missing"},
    {"op is int64", op_is_i64, "\"op\" is missing"},
    {"op NULL", op_null, "\"op\" is missing"},
    {"op 5", op_too_large, "\"op\" is 5"},
    {"op -1", op_negative, "\"op\" is -1"},
    {"no ranks", no_ranks, "\"ranks\" is missing"},
    {"0 ranks", ranks_zero, "\"ranks\" is 0"},
    {"17 ranks", ranks_17, "\"ranks\" is 17"},
    {"groups scalar", groups_scalar, "\"groups\" is missing"},
    {"groups int32", groups_i32, "\"groups\" is missing"},
    {"groups NULL", groups_null, "\"groups\" is missing"},
    {"no groups", groups_empty, "not a multiple of"},
    {"groups not a multiple", groups_ragged, "not a multiple of"},
    {"2^64 groups", groups_huge, "not a multiple of"},
    {"complex max", complex_max, "complex64 can be summed"},
    {"devices of no group", other_devices, "no group of 2 ranks is open"},
    {"another order of devices", other_order, "no group of 2 ranks is open"},
    {"GPU of no group", other_gpu, "GPU 5"},
    {"GPU -1", negative_gpu, "GPU -1"},
    {"runtime refuses the device", refused, "no device here"},
    {"a runtime with fewer functions", short_api, "neither stream nor device"},
    {"no Stream_Get", no_stream_get, "neither stream nor device"},
};

const size_t hostile_count = sizeof hostile / sizeof hostile[0];
