/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why.c - symtuner why: prints what NCCL does with one call, and the first condition that keeps the
 * call from a symmetric kernel.
 */
#include "cli/why/why.h"

#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"

/* Change ${call} so that it passes ${gate}, one of NCCL's conditions for symmetric kernels, without
 * changing what the program computes. Returns false if no such change is known. */
static bool undo(struct symtuner_call *call, enum symtuner_gate gate)
{
    switch (gate) {
    case SYMTUNER_GATE_RELEASE:
        call->nccl = 22809;
        return true;
    case SYMTUNER_GATE_WINDOWS:
        call->win_enable = call->cumem_enable = 1;
        return true;
    case SYMTUNER_GATE_CE:
        call->cta_policy = 0;
        call->ce_threshold = INT64_MAX;
        return true;
    case SYMTUNER_GATE_ALGO_ENV:
        call->algo = NULL;
        return true;
    case SYMTUNER_GATE_KERNEL_ENV:
        call->sym_kernel = NULL;
        return true;
    case SYMTUNER_GATE_REGISTERED:
        call->send = call->recv = SYMTUNER_REG_SYMMETRIC;
        return true;
    case SYMTUNER_GATE_GROUP:
        call->group = 1;
        return true;
    case SYMTUNER_GATE_PROCESS:
        call->proc_reg = 1;
        return true;
    case SYMTUNER_GATE_LL_ASKED:
        call->send = call->recv = SYMTUNER_REG_SYMMETRIC;
        call->tuner_ll = 1;
        return true;
    default:
        return false;
    }
}

/* Find what would make the call run on a symmetric kernel: change the call so that it passes one
 * gate after the other, until NCCL runs a symmetric kernel or we know no cure. Starts with the
 * verdict ${answer}->now. Sets the members ${cure}, ${cures}, ${cured} and ${after} of
 * ${answer}. */
static void find_cures(const struct symtuner_call *call, struct st_answer *answer)
{
    struct symtuner_call better = *call;
    enum symtuner_gate gate = answer->now.gate;

    answer->after = answer->now;
    answer->cures = 0;
    if (answer->now.kind == SYMTUNER_KIND_OPEN)
        gate = SYMTUNER_GATE_LL_ASKED;
    while (gate != SYMTUNER_GATE_NONE && answer->cures < ST_WHY_CURES) {
        answer->cure[answer->cures++] = gate;
        if (!undo(&better, gate))
            break;
        symtuner_predict(&better, &answer->after);
        gate = answer->after.kind == SYMTUNER_KIND_OPEN ? SYMTUNER_GATE_LL_ASKED
                                                        : answer->after.gate;
    }
    answer->cured = answer->cures > 0 && answer->after.kind == SYMTUNER_KIND_SYMMETRIC;
}

int st_cmd_why(int argc, char **argv)
{
    static struct st_why why; /* static, because it is large */
    static struct st_answer answer;
    int status = st_why_read(argc, argv, &why);

    if (status >= 0)
        return status;
    answer.now.struct_size = answer.after.struct_size = sizeof answer.now;
    if (symtuner_predict(&why.call, &answer.now) != SYMTUNER_OK)
        return st_fail(ST_EXIT_USAGE,
                       "symtuner why: a value is out of range; see symtuner why --help\n");
    find_cures(&why.call, &answer);
    status = st_why_here(&why, &answer.now, &answer.here);
    if (status != ST_EXIT_FINE)
        return status;
    (why.json ? st_why_print_json : st_why_print)(&why, &answer, stdout);
    return ST_EXIT_FINE;
}
