/* SPDX-License-Identifier: Apache-2.0 */
/* same_abi.c - if jax/xla_abi.h differs from XLA's headers of FFI 0.4, this file does not compile.
 * With an older jaxlib there is nothing to compare. */
#include "jax/xla_abi.h"

#if __has_include("xla/ffi/api/collectives_c_api.h")
#include "xla/ffi/api/collectives_c_api.h"

#define AT(a, m, b, n)                                                                             \
    _Static_assert(offsetof(struct a, m) == offsetof(struct b, n) &&                               \
                       sizeof(((struct a *)0)->m) == sizeof(((struct b *)0)->n),                   \
                   #a "." #m)

_Static_assert(FFI_FIND_EXTENSION_AT ==
                   offsetof(struct XLA_FFI_Api, XLA_FFI_InvokeContext_FindExtension),
               "lookup");
_Static_assert(FFI_COLLECTIVES == XLA_FFI_Extension_Collectives &&
                   FFI_MAJOR_KNOWN == XLA_FFI_Extension_Collectives_MajorVersion &&
                   FFI_FLATTENED_ID == XLA_FFI_GROUP_FLATTENED_ID,
               "numbers");
AT(ffi_find_extension_args, ctx, XLA_FFI_InvokeContext_FindExtension_Args, ctx);
AT(ffi_find_extension_args, type, XLA_FFI_InvokeContext_FindExtension_Args, extension_type);
AT(ffi_find_extension_args, extension, XLA_FFI_InvokeContext_FindExtension_Args, extension);
AT(ffi_replica_group, ids, XLA_FFI_ReplicaGroup, ids);
AT(ffi_replica_group, size, XLA_FFI_ReplicaGroup, size);
AT(ffi_request_args, mode, XLA_FFI_Communicator_Request_Args, group_mode);
AT(ffi_request_args, groups, XLA_FFI_Communicator_Request_Args, groups);
AT(ffi_request_args, groups_size, XLA_FFI_Communicator_Request_Args, num_groups);
AT(ffi_request_args, communication_id, XLA_FFI_Communicator_Request_Args, communication_id);
_Static_assert(sizeof(struct ffi_request_args) == XLA_FFI_Communicator_Request_Args_STRUCT_SIZE,
               "request");
AT(ffi_get_args, head.mode, XLA_FFI_Communicator_Get_Args, group_mode);
AT(ffi_get_args, head.groups, XLA_FFI_Communicator_Get_Args, groups);
AT(ffi_get_args, head.groups_size, XLA_FFI_Communicator_Get_Args, num_groups);
AT(ffi_get_args, head.communication_id, XLA_FFI_Communicator_Get_Args, communication_id);
AT(ffi_get_args, comm, XLA_FFI_Communicator_Get_Args, communicator);
_Static_assert(sizeof(struct ffi_get_args) == XLA_FFI_Communicator_Get_Args_STRUCT_SIZE, "get");
AT(ffi_collectives, struct_size, XLA_FFI_Collectives_Extension, extension_base.struct_size);
AT(ffi_collectives, type, XLA_FFI_Collectives_Extension, extension_base.id.extension_type);
AT(ffi_collectives, major, XLA_FFI_Collectives_Extension, extension_base.id.major_version);
AT(ffi_collectives, minor, XLA_FFI_Collectives_Extension, extension_base.id.minor_version);
AT(ffi_collectives, state, XLA_FFI_Collectives_Extension, state);
AT(ffi_collectives, request, XLA_FFI_Collectives_Extension, request_communicator);
AT(ffi_collectives, get, XLA_FFI_Collectives_Extension, get_communicator);
_Static_assert(sizeof(struct ffi_collectives) == XLA_FFI_Collectives_Extension_STRUCT_SIZE,
               "extension");
#endif

int ffi_same_abi; /* C does not allow an empty file */
