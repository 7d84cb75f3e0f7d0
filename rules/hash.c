/* SPDX-License-Identifier: Apache-2.0 */
/* hash.c - a hash of what rules mean, taken over the keys in the table of rules/keys.c. */
#include "rules/reader.h"

uint64_t st_hash_value(uint64_t hash, uint64_t value)
{
    return st_hash(hash, &value, sizeof value); /* the bytes of the value, lowest byte first */
}

uint64_t st_hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = st_hash_value(hash, (uint64_t)*text);
    return hash;
}

/* Add to ${hash} what ${key} has set in ${rule}. */
static uint64_t hash_key(uint64_t hash, const struct st_key *key, const struct st_rule *rule)
{
    const void *member = (const char *)rule + key->offset;
    const struct st_span *span = member;
    const unsigned *bits = member;
    const int *number = member;

    switch (key->type) {
    case ST_KEY_COMMENT:
        break;
    case ST_KEY_GONE:
        return st_hash_value(hash, 0);
    case ST_KEY_BOOL:
        return st_hash_value(hash, *(const bool *)member);
    case ST_KEY_BITS:
        return st_hash_value(hash, *bits);
    case ST_KEY_INTS:
        for (size_t i = 0; i < key->size / sizeof *number; i++)
            hash = st_hash_value(hash, (uint64_t)number[i]);
        break;
    case ST_KEY_SET_BITS:
        return *bits == 0 ? hash : st_hash_value(st_hash_text(hash, key->word), *bits);
    case ST_KEY_SET_INT:
        return *number < 0 ? hash : st_hash_value(hash, (uint64_t)*number);
    case ST_KEY_SET_SPAN:
        if (span->lo == 0 && span->hi == UINT64_MAX)
            break;
        /* fall through */
    case ST_KEY_SPAN:
        return st_hash_value(st_hash_value(hash, span->lo), span->hi);
    case ST_KEY_TEXT:
        return st_hash_text(hash, member);
    }
    return hash;
}

/* The hash leaves out names, comments, layout and line numbers of the rules, because no decision
 * depends on them. */
uint64_t symtuner_rules_hash(const symtuner_rules *rules)
{
    uint64_t hash = ST_HASH_START;

    for (int i = 0; rules && i < rules->count; i++) {
        const struct st_rule *rule = &rules->rule[i];

        hash = st_hash_value(hash, rule->kernels ? 2 : rule->process);
        for (const struct st_key *key = st_keys; key->word; key++)
            if (key->where != ST_IN_KERNELS || rule->kernels)
                hash = hash_key(hash, key, rule);
    }
    return hash;
}
