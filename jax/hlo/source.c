/* SPDX-License-Identifier: Apache-2.0 */
/* source.c - find the line of the user's program that an instruction comes from. */
#include "jax/hlo/fields.h"
#include "jax/hlo/module.h"

#include <stdio.h>
#include <string.h>

void hlo_text(struct hlo_bytes bytes, char *text, size_t size)
{
    size_t n = bytes.size < size ? bytes.size : size - 1;

    for (size_t i = 0; i < n; i++)
        text[i] = bytes.at[i] >= ' ' && bytes.at[i] != 0x7f ? (char)bytes.at[i] : '?';
    text[n] = '\0';
}

/* Of the fields with number ${number}, return the content of the ${place}-th one, counted from 1.
 * Returns no bytes if there is no such field. */
static struct hlo_bytes find_bytes(struct hlo_bytes rest, uint32_t number, uint64_t place)
{
    struct hlo_field field;

    while (place > 0 && hlo_next(&rest, &field) == 1)
        if (field.number == number && --place == 0)
            return field.bytes;
    return (struct hlo_bytes){NULL, 0};
}

static uint64_t find_int(struct hlo_bytes rest, uint32_t number)
{
    struct hlo_field field;

    while (hlo_next(&rest, &field) == 1)
        if (field.number == number)
            return field.value;
    return 0;
}

/* An instruction names a stack frame, the frame a location, and the location a file. All are
 * counted from 1. Without a frame the instruction itself names file and line. */
int hlo_source_line(const struct hlo_module *module, const struct hlo_instruction *in, char *text,
                    size_t size)
{
    uint64_t id = find_int(in->metadata, HLO_OP_METADATA_STACK_FRAME_ID);
    uint64_t line = find_int(in->metadata, HLO_OP_METADATA_SOURCE_LINE);
    struct hlo_bytes file = find_bytes(in->metadata, HLO_OP_METADATA_SOURCE_FILE, 1);
    struct hlo_bytes frame, location = {NULL, 0};
    size_t end;

    if (id != 0) {
        frame = find_bytes(module->frames, HLO_STACK_FRAME_INDEX_STACK_FRAMES, id);
        location = find_bytes(module->frames, HLO_STACK_FRAME_INDEX_FILE_LOCATIONS,
                              find_int(frame, HLO_STACK_FRAME_FILE_LOCATION_ID));
        file = find_bytes(module->frames, HLO_STACK_FRAME_INDEX_FILE_NAMES,
                          find_int(location, HLO_FILE_LOCATION_FILE_NAME_ID));
        line = find_int(location, HLO_FILE_LOCATION_LINE);
    }
    hlo_text(file, text, size);
    end = strlen(text);
    if (end > 0)
        snprintf(text + end, size - end, ":%llu", (unsigned long long)line);
    return (int)find_int(location, HLO_FILE_LOCATION_COLUMN);
}
