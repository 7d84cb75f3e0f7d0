/* SPDX-License-Identifier: Apache-2.0 */
/* frames.c - makes a valid call frame, and a fake of XLA's runtime, which the handler calls. */
#include "test/jax/frames.h"
#include "jax/library.h"
#include "jax/xla_abi.h"

#include <stdio.h>
#include <string.h>

struct runtime runtime;
_Thread_local int thread_ordinal = -1;

static float memory[2][42];
static char context; /* stands for the opaque context of a call */

static XLA_FFI_Error *error_create(XLA_FFI_Error_Create_Args *args)
{
    snprintf(runtime.message, sizeof runtime.message, "%s", args->message);
    runtime.code = (int)args->errc;
    runtime.errors++;
    return (XLA_FFI_Error *)&runtime;
}

static XLA_FFI_Error *stream_get(XLA_FFI_Stream_Get_Args *args)
{
    args->stream = (void *)args->ctx == &context ? runtime.stream : NULL;
    return NULL;
}

static XLA_FFI_Error *ordinal_get(XLA_FFI_DeviceOrdinal_Get_Args *args)
{
    XLA_FFI_Error_Create_Args error = {.message = "no device here", .errc = 13};

    if (runtime.refuse)
        return error_create(&error);
    args->device_ordinal = (void *)args->ctx != &context ? -1
                           : thread_ordinal >= 0         ? thread_ordinal
                                                         : runtime.ordinal;
    return NULL;
}

static XLA_FFI_Error *run_id_get(XLA_FFI_RunId_Get_Args *args)
{
    args->run_id = runtime.run;
    return NULL;
}

void runtime_fill(void)
{
    memset(&runtime, 0, sizeof runtime);
    runtime.api.struct_size = sizeof runtime.api;
    runtime.api.api_version.minor_version = XLA_FFI_API_MINOR;
    runtime.api.XLA_FFI_Error_Create = error_create;
    runtime.api.XLA_FFI_Stream_Get = stream_get;
    runtime.api.XLA_FFI_DeviceOrdinal_Get = ordinal_get;
    runtime.api.XLA_FFI_RunId_Get = run_id_get;
    runtime.ordinal = 1;
    runtime.stream = (void *)0x5000;
}

static void fill_buffer(XLA_FFI_Buffer *b, int64_t *dims, void *data)
{
    dims[0] = 6;
    dims[1] = 7;
    b->struct_size = sizeof *b;
    b->dtype = XLA_FFI_DataType_F32;
    b->data = data;
    b->rank = 2;
    b->dims = dims;
}

static void name(struct frame *f, int i, const char *text, XLA_FFI_AttrType type, void *value)
{
    f->name[i].ptr = text;
    f->name[i].len = strlen(text);
    f->names[i] = &f->name[i];
    f->types[i] = type;
    f->values[i] = value;
}

void frame_fill(struct frame *f)
{
    memset(f, 0, sizeof *f);
    fill_buffer(&f->in, f->in_dims, memory[0]);
    fill_buffer(&f->out, f->out_dims, memory[1]);
    f->arg_type = XLA_FFI_ArgType_BUFFER;
    f->ret_type = XLA_FFI_RetType_BUFFER;
    f->arg = &f->in;
    f->ret = &f->out;
    f->ids[1] = 1;
    f->ids[2] = 2;
    f->ids[3] = 3;
    f->op_value = 0;
    f->ranks_value = 2;
    f->groups.dtype = XLA_FFI_DataType_S64;
    f->groups.size = 4;
    f->groups.data = f->ids;
    f->op.dtype = f->ranks.dtype = XLA_FFI_DataType_S32;
    f->op.value = &f->op_value;
    f->ranks.value = &f->ranks_value;
    name(f, ATTR_GROUPS, "groups", XLA_FFI_AttrType_ARRAY, &f->groups);
    name(f, ATTR_OP, "op", XLA_FFI_AttrType_SCALAR, &f->op);
    name(f, ATTR_RANKS, "ranks", XLA_FFI_AttrType_SCALAR, &f->ranks);
    f->frame.struct_size = sizeof f->frame;
    f->frame.api = &runtime.api;
    f->frame.ctx = (void *)&context;
    f->frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
    f->frame.args.struct_size = sizeof f->frame.args;
    f->frame.args.size = f->frame.rets.size = 1;
    f->frame.args.types = &f->arg_type;
    f->frame.args.args = &f->arg;
    f->frame.rets.types = &f->ret_type;
    f->frame.rets.rets = &f->ret;
    f->frame.attrs.size = 3;
    f->frame.attrs.types = f->types;
    f->frame.attrs.names = f->names;
    f->frame.attrs.attrs = f->values;
}

void frame_add_flat(struct frame *f)
{
    f->flat.dtype = XLA_FFI_DataType_S64;
    f->flat.size = 4;
    f->flat.data = f->ids;
    name(f, ATTR_FLAT, "flat", XLA_FFI_AttrType_ARRAY, &f->flat);
    f->frame.attrs.size = 4;
}

void frame_add_coll(struct frame *f, int coll)
{
    f->coll_value = coll;
    f->coll.dtype = XLA_FFI_DataType_S32;
    f->coll.value = &f->coll_value;
    name(f, ATTR_COLL, "coll", XLA_FFI_AttrType_SCALAR, &f->coll);
    f->frame.attrs.size = 4;
    if (coll == SYMTUNER_AR_REDUCE_SCATTER)
        f->out_dims[0] = 3;
    if (coll == SYMTUNER_AR_ALL_GATHER)
        f->in_dims[0] = 3;
}

/* ---- XLA's collectives extension ------------------------------------------------------------- */

struct offer offer;
static struct ffi_collectives collectives;

static void see(const struct ffi_replica_group *groups, size_t rows)
{
    offer.rows = rows;
    offer.ranks = groups[0].size;
    for (size_t i = 0; i < rows; i++)
        for (size_t r = 0; r < groups[i].size && i * groups[i].size + r < 4; r++)
            offer.seen[i * groups[i].size + r] = groups[i].ids[r];
}

static XLA_FFI_Error *ask_comm(const struct ffi_collectives *self, struct ffi_request_args *args)
{
    XLA_FFI_Error_Create_Args error = {.message = "no cliques here", .errc = 9};

    offer.requests++;
    see(args->groups, args->groups_size);
    return offer.fails || self != &collectives || args->mode != FFI_FLATTENED_ID ||
                   args->struct_size != 48 || args->communication_id != 0
               ? error_create(&error)
               : NULL;
}

static XLA_FFI_Error *get_comm(const struct ffi_collectives *self, struct ffi_get_args *args)
{
    XLA_FFI_Error_Create_Args error = {.message = "no cliques here", .errc = 9};

    offer.gets++;
    see(args->head.groups, args->head.groups_size);
    args->comm = offer.comm;
    return offer.fails || self != &collectives || args->head.struct_size != 56
               ? error_create(&error)
               : NULL;
}

static XLA_FFI_Error *find_extension(struct ffi_find_extension_args *args)
{
    args->extension = args->type == FFI_COLLECTIVES && args->ctx == &context ? &collectives : NULL;
    return NULL;
}

void runtime_offer(int minor, void *comm)
{
    XLA_FFI_Error *(*find)(struct ffi_find_extension_args *) = find_extension;

    memset(&offer, 0, sizeof offer);
    offer.comm = comm;
    collectives = (struct ffi_collectives){.struct_size = sizeof collectives,
                                           .type = FFI_COLLECTIVES,
                                           .minor = minor,
                                           .request = ask_comm,
                                           .get = get_comm};
    memcpy(runtime.room + FFI_FIND_EXTENSION_AT, &find, sizeof find);
    runtime.api.struct_size = FFI_FIND_EXTENSION_AT + sizeof find;
}
