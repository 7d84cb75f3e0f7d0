/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local.cu - the kernels that run between the copies of kernels/host/copy.c.
 *
 * local    adds up one piece of this rank's shard: its own words, and those that the peers have
 *          copied into its scratch
 * signal   tells every peer that the previous copies of this stream are complete
 * await    waits for the peers' signals; the last await of a call publishes the next epoch
 *
 * A copy is complete at its destination before the next operation of its stream starts. So signal,
 * which calls raise_flags(), does not need the fence in that function. The fence does no harm.
 */
#include "kernels/device/bulk.cuh"

namespace ar
{

/*
 * Fields of args:
 *   in       this rank's own words of the piece
 *   out      where the sums of the piece go
 *   region   offset of rank 0's slot for this piece
 *   shard    bytes from slot to slot
 */
template <class R>
__global__ void __launch_bounds__(512, 1) local(const __grid_constant__ ar_args args)
{
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x * AR_WORD;
    call_counters counters(args);

    if (counters.dead) {
        refuse(&args);
        return;
    }
    for (uint64_t at = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) * AR_WORD; at < args.bytes;
         at += step) {
        payload own = load_payload(args.in, at, args.bytes, args.in_align);
        rank_sum<R, 2, 0> sum;

        for (int first = 0; first < args.ranks; first += 4) {
            payload v[4];

#pragma unroll
            for (int i = 0; i < 4; i++) {
                v[i] = own;
                if (first + i < args.ranks && first + i != args.me)
                    v[i] = as_payload(load_bulk(args.peer[args.me] + args.region +
                                                (first + i) * args.shard + at));
            }
            sum.take(first, args.ranks, v, args.kind);
        }
        store_payload(args.out, at, args.bytes, args.out_align, sum.finish(args));
    }
}

/* Fields of args: lag is the kind of the flag (enum ar_flag_kind), tiles is the step to which the
 * flag is raised. */
__global__ void signal(const __grid_constant__ ar_args args)
{
    call_counters counters(args);

    if (counters.dead)
        refuse(&args);
    else
        raise_flags(args, args.lag, ar_flag_step(counters.epoch, args.tiles));
}

#if defined(ST_BREAK_REDUCE)
constexpr int left_out = AR_FLAG_REDUCE;
#elif defined(ST_BREAK_GATHER)
constexpr int left_out = AR_FLAG_GATHER;
#elif defined(ST_BREAK_FETCH)
constexpr int left_out = AR_FLAG_ENTER;
#else
constexpr int left_out = -1;
#endif

/* Fields of args: lag is the kind of the flag (enum ar_flag_kind), tiles is the step that the flag
 * must reach. staged is not 0 in the last await of a call. */
__global__ void await(const __grid_constant__ ar_args args)
{
    spin_limit wait;
    call_counters counters(args);

    if (counters.dead)
        refuse(&args);
    if (!__syncthreads_or(counters.dead) && (left_out < 0 || args.lag != left_out))
        await_flags(args, args.lag, ar_flag_step(counters.epoch, args.tiles), wait);
    if (args.staged) {
        counters.book_in(args);
        counters.publish(args);
    }
}

} // namespace ar

#define AR_LOCAL(R)                                                                                \
    {                                                                                              \
        (const void *)&ar::local<R>                                                                \
    }

extern "C" const struct ar_kernel_row ar_kernels_copy = {{
    AR_LOCAL(ar::sum_f32),
    AR_LOCAL(ar::sum_16bit<ar::half_codec>),
    AR_LOCAL(ar::sum_16bit<ar::bf16_codec>),
    AR_LOCAL(ar::native),
    AR_LOCAL(ar::wide),
}};

/* An all-gather by copies adds nothing up, but its row must name some kernel: NULL would mean that
 * there is no kernel for it (kernels/shared/args.h). */
extern "C" const struct ar_kernel_row ar_gather_copy = {{{(const void *)&ar::signal}}};

extern "C" const void *const ar_kernel_signal = (const void *)&ar::signal;
extern "C" const void *const ar_kernel_await = (const void *)&ar::await;
