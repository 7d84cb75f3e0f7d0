/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c - read and write the wire format of protobuf messages. */
#include "jax/hlo/wire.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FIELD 536870911 /* the largest field number that protobuf allows */

static int take_varint(struct hlo_bytes *rest, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 70 && rest->size > 0; shift += 7) {
        uint8_t byte = *rest->at;

        rest->at++;
        rest->size--;
        if (shift < 64)
            *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return 0;
    }
    return -1;
}

static int take_bytes(struct hlo_bytes *rest, uint64_t size, struct hlo_bytes *bytes)
{
    if (size > rest->size)
        return -1;
    *bytes = (struct hlo_bytes){rest->at, (size_t)size};
    rest->at += size;
    rest->size -= (size_t)size;
    return 0;
}

static int take_content(struct hlo_bytes *rest, struct hlo_field *field)
{
    uint64_t size;

    switch (field->type) {
    case HLO_VARINT:
        return take_varint(rest, &field->value);
    case HLO_FIXED64:
        return take_bytes(rest, 8, &field->bytes);
    case HLO_FIXED32:
        return take_bytes(rest, 4, &field->bytes);
    case HLO_BYTES:
        return take_varint(rest, &size) == 0 ? take_bytes(rest, size, &field->bytes) : -1;
    }
    return -1; /* a group of protobuf, which proto3 does not have */
}

int hlo_next(struct hlo_bytes *rest, struct hlo_field *field)
{
    const uint8_t *from = rest->at;
    uint64_t tag;

    if (rest->size == 0)
        return 0;
    memset(field, 0, sizeof *field);
    if (take_varint(rest, &tag) != 0 || tag >> 3 == 0 || tag >> 3 > MAX_FIELD)
        return -1;
    field->number = (uint32_t)(tag >> 3);
    field->type = (enum hlo_wire)(tag & 7);
    if (take_content(rest, field) != 0)
        return -1;
    field->whole = (struct hlo_bytes){from, (size_t)(rest->at - from)};
    return 1;
}

static int add_number(struct hlo_numbers *numbers, int64_t number)
{
    if (numbers->count == numbers->room) {
        size_t room = numbers->room > 0 ? 2 * numbers->room : 16;
        int64_t *at = realloc(numbers->at, room * sizeof *at);

        if (at == NULL)
            return -1;
        numbers->at = at;
        numbers->room = room;
    }
    numbers->at[numbers->count++] = number;
    return 0;
}

int hlo_numbers_read(struct hlo_numbers *numbers, const struct hlo_field *field)
{
    struct hlo_bytes rest = field->bytes;
    uint64_t value;

    if (field->type == HLO_VARINT)
        return add_number(numbers, (int64_t)field->value);
    if (field->type != HLO_BYTES)
        return -1;
    while (rest.size > 0)
        if (take_varint(&rest, &value) != 0 || add_number(numbers, (int64_t)value) != 0)
            return -1;
    return 0;
}

int hlo_is(struct hlo_bytes bytes, const char *text)
{
    return bytes.size == strlen(text) && memcmp(bytes.at, text, bytes.size) == 0;
}

void hlo_put(struct hlo_out *out, struct hlo_bytes bytes)
{
    if (out->failed || bytes.size == 0)
        return;
    if (bytes.size > out->room - out->size) {
        size_t room = 2 * (out->size + bytes.size) + 64;
        uint8_t *at = realloc(out->at, room);

        if (at == NULL) {
            out->failed = 1;
            return;
        }
        out->at = at;
        out->room = room;
    }
    memcpy(out->at + out->size, bytes.at, bytes.size);
    out->size += bytes.size;
}

void hlo_put_text(struct hlo_out *out, const char *text)
{
    hlo_put(out, (struct hlo_bytes){(const uint8_t *)text, strlen(text)});
}

void hlo_put_int(struct hlo_out *out, uint64_t value)
{
    uint8_t bytes[10];
    size_t size = 0;

    do {
        bytes[size] = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
        size++;
    } while (value > 0);
    hlo_put(out, (struct hlo_bytes){bytes, size});
}

void hlo_put_int_field(struct hlo_out *out, uint32_t number, uint64_t value)
{
    hlo_put_int(out, (uint64_t)number << 3 | HLO_VARINT);
    hlo_put_int(out, value);
}

void hlo_put_bytes_field(struct hlo_out *out, uint32_t number, struct hlo_bytes bytes)
{
    hlo_put_int(out, (uint64_t)number << 3 | HLO_BYTES);
    hlo_put_int(out, bytes.size);
    hlo_put(out, bytes);
}
