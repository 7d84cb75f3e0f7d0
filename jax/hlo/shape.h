/* SPDX-License-Identifier: Apache-2.0 */
/* shape.h - read a ShapeProto. It reads only arrays of a fixed size that are stored row by row. */
#ifndef HLO_SHAPE_H_
#define HLO_SHAPE_H_

#include "jax/hlo/types.h"
#include "jax/hlo/wire.h"

#define HLO_DIMENSIONS 32

struct hlo_shape {
    const struct hlo_type *type;
    int rank;
    int64_t dimensions[HLO_DIMENSIONS];
    int64_t bytes;
};

/* Returns NULL, or why the kernels cannot reduce a buffer of this shape. */
const char *hlo_shape_read(struct hlo_bytes bytes, struct hlo_shape *shape);

int hlo_shape_same(const struct hlo_shape *a, const struct hlo_shape *b);

#endif
