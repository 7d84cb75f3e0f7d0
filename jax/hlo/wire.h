/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - read and write the wire format of protobuf messages, field by field.
 *
 * Pure. Readers return pieces of the caller's bytes; nothing is copied. Every length is checked
 * against the remaining bytes, so the input may be any bytes.
 */
#ifndef HLO_WIRE_H_
#define HLO_WIRE_H_

#include <stddef.h>
#include <stdint.h>

struct hlo_bytes {
    const uint8_t *at;
    size_t size;
};

enum hlo_wire { HLO_VARINT = 0, HLO_FIXED64 = 1, HLO_BYTES = 2, HLO_FIXED32 = 5 };

struct hlo_field {
    uint32_t number;
    enum hlo_wire type;
    uint64_t value;         /* the integer, if the type is HLO_VARINT */
    struct hlo_bytes bytes; /* the content, if the type is not HLO_VARINT */
    struct hlo_bytes whole; /* tag and content, to copy the field */
};

/* A list of integers that grows. Free ${at} with free(). */
struct hlo_numbers {
    int64_t *at;
    size_t count, room;
};

/* An array of bytes that grows. ${failed}: memory ran out, so the bytes are not complete. */
struct hlo_out {
    uint8_t *at;
    size_t size, room;
    int failed;
};

/* Take the next field from ${rest}. Returns 1; 0 at the end; -1 if the bytes are no message. */
int hlo_next(struct hlo_bytes *rest, struct hlo_field *field);

/* Append the integers of a repeated field, packed or not, to ${numbers}. Returns 0, or -1 if the
 * field does not hold integers, or if memory ran out. */
int hlo_numbers_read(struct hlo_numbers *numbers, const struct hlo_field *field);

int hlo_is(struct hlo_bytes bytes, const char *text);

void hlo_put(struct hlo_out *out, struct hlo_bytes bytes);
void hlo_put_text(struct hlo_out *out, const char *text);
/* Append an integer without the number of a field. */
void hlo_put_int(struct hlo_out *out, uint64_t value);
void hlo_put_int_field(struct hlo_out *out, uint32_t number, uint64_t value);
void hlo_put_bytes_field(struct hlo_out *out, uint32_t number, struct hlo_bytes bytes);

#endif
