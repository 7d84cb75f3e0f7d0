/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tma_ipc.cuh - the kernels of tma.cuh, for buffers that nobody registered.
 *
 * At the start each block tells the same block of every peer where this rank's buffers lie (their
 * places, kernels/shared/ipc.h). The block looks up where the peers' buffers are mapped here, and
 * tells the peers whether it has found all. If it has found all on every rank, the block goes on as
 * in tma.cuh. Otherwise its tiles go through scratch in rounds. Each round moves some tiles of
 * every shard, and has two barriers.
 *
 * If the host maps a buffer between the decisions of two blocks of a call, one block may go through
 * scratch and the other not. That does no harm: a block moves the same tiles either way, and it
 * exchanges data only with the same block of its peers.
 */
#ifndef AR_TMA_IPC_CUH_
#define AR_TMA_IPC_CUH_

#include "kernels/device/tma/tma.cuh"

namespace ar
{

static_assert(sizeof(ar_args) <= AR_TMA_IPC_MORE, "the host asks for too little shared memory");

/* Return the address of the word in the memory of rank ${at} that rank ${writer} stores, for rank
 * ${at} to read. The blocks of number blockIdx.x of the two ranks have this word for themselves.
 * ${row} is an enum ar_ipc_row and says what the word means. */
__device__ __forceinline__ uint64_t *ipc_word(const ar_args &args, int at, int row, int writer)
{
    return (uint64_t *)(args.peer[at] +
                        ar_flag_offset(AR_FLAG_IPC, blockIdx.x * AR_IPC_ROWS + row, writer));
}

/* Like enter() of pull.cuh, but also tell the peers where this rank's buffers lie. */
__device__ __forceinline__ bool ipc_enter(const ar_args &args, const call_counters &counters,
                                          spin_limit &wait)
{
    if ((int)threadIdx.x < args.ranks && (int)threadIdx.x != args.me && !counters.dead) {
        store_relaxed(ipc_word(args, threadIdx.x, AR_IPC_SEND, args.me), args.at_send);
        store_relaxed(ipc_word(args, threadIdx.x, AR_IPC_RECV, args.me), args.at_recv);
    }
    return enter(args, counters, wait);
}

/* Return where a buffer of rank ${r} is mapped here, or NULL if it is not mapped. ${row} is
 * AR_IPC_SEND or AR_IPC_RECV. */
__device__ __forceinline__ char *ipc_look_up(const ar_args &args, int row, int r)
{
    const uint64_t place = load_relaxed(ipc_word(args, args.me, row, r));
    char *const base =
        place == 0
            ? NULL
            : (char *)load_relaxed((const uint64_t *)&args.ipc->base[r][ar_ipc_number(place) - 1]);

    return base == NULL ? NULL : base + ar_ipc_at(place);
}

/* Called by thread ${r}: write to ${found} where the buffers of rank ${r} are mapped. Returns false
 * if a buffer that the call needs is not mapped here. */
template <int Coll> __device__ __forceinline__ bool ipc_find(ar_args &found, int r)
{
    const uint64_t mine = found.stride * (uint64_t)found.me; /* mine is 0 in an all-reduce */
    const bool own = r == found.me;
    const bool reads = Coll != AR_ALL_GATHER, writes = Coll != AR_REDUCE_SCATTER;
    const char *send = own ? found.in : reads ? ipc_look_up(found, AR_IPC_SEND, r) : NULL;
    char *recv = own ? found.out : writes ? ipc_look_up(found, AR_IPC_RECV, r) : NULL;

    found.src[r] = send + (Coll == AR_REDUCE_SCATTER ? mine : 0);
    found.dst[r] = recv + (Coll == AR_ALL_GATHER ? mine : 0);
    return (send != NULL || !reads) && (recv != NULL || !writes);
}

/* Called by all threads of the block. ${all} says whether this block has found the buffers of all
 * ranks. Tell this to the peers, and return whether the same block of every rank has found all.
 * *alive becomes false if the rank gave up waiting. */
__device__ __forceinline__ bool ipc_agree(const ar_args &args, uint64_t epoch, bool all,
                                          bool *alive, spin_limit &wait)
{
    const uint64_t no = ar_flag_step(epoch, 2);
    uint64_t told = no + all;
    bool stop = false;

    if ((int)threadIdx.x < args.ranks && (int)threadIdx.x != args.me) {
        const uint64_t *flag = ipc_word(args, args.me, AR_IPC_REACHES, threadIdx.x);

        store_relaxed(ipc_word(args, threadIdx.x, AR_IPC_REACHES, args.me), told);
        stop = !await_flag(args, flag, no, wait);
        told = load_relaxed(flag);
    }
#ifdef ST_BREAK_MAPPED /* broken: ignore what the peers have found */
    told = no + all;
#endif
    *alive = !__syncthreads_or(stop);
    return !__syncthreads_or(told == no);
}

/* Holds the addresses that ipc_find() has found, in registers: a thread that moves tiles has no
 * time to load them from memory. Entry 0 is for the rank after this one, entry 1 for the next, and
 * so on. So all indices are constants at compile time, as registers need, whatever number this rank
 * has. */
template <int N> struct found_buffers {
    const char *src_[N ? N : AR_IPC_RANKS];
    char *dst_[N ? N : AR_IPC_RANKS];

    __device__ __forceinline__ explicit found_buffers(const ar_args &args)
    {
#pragma unroll
        for (int i = 0; i < (N ? N : AR_IPC_RANKS); i++) {
            const int r = args.me + i + 1;
            const int from = N || i < args.ranks ? r < args.ranks ? r : r - args.ranks : 0;

            src_[i] = args.src[from];
            dst_[i] = args.dst[from];
        }
    }
    __device__ __forceinline__ const char *src(int i, int) const
    {
        return src_[i - 1];
    }
    __device__ __forceinline__ char *dst(int i, int) const
    {
        return dst_[i - 1];
    }
};

/* ---- through scratch ------------------------------------------------------------------------- */

/* The words of a shard, or of a part of the message, that a block moves. In each round the block
 * moves its next args.tiles tiles, as many as a slot of scratch holds. */
template <int Coll> struct ipc_words {
    const ar_args &args;
    const uint32_t tile; /* bytes of a tile: a power of two, 1 << ${shift} */
    const uint32_t slot; /* bytes of a slot */
    const int parts;     /* how many parts or shards send has */
    int shift = 0;
    uint64_t round = 0;

    __device__ __forceinline__ explicit ipc_words(const ar_args &args)
        : args(args), tile(ar_tma_tile_of(Coll, args.ranks)), slot((uint32_t)args.tiles * tile),
          parts(Coll == AR_ALL_GATHER ? 1 : args.ranks)
    {
        while (1u << shift < tile)
            shift++;
    }
    __device__ __forceinline__ uint64_t bytes(int part) const
    {
        return Coll == AR_ALL_REDUCE ? ar_shard_bytes(args.bytes, args.shard, part) : args.bytes;
    }
    /* Return where part ${part} begins in a buffer that has all parts. */
    __device__ __forceinline__ uint64_t first(int part) const
    {
        return (Coll == AR_ALL_REDUCE ? args.shard : args.stride) * (uint64_t)part;
    }
    /* Return where the word at byte ${x} of a slot lies in its part. */
    __device__ __forceinline__ uint64_t at(uint32_t x) const
    {
        const uint64_t tiles = (round * args.tiles + (x >> shift)) * gridDim.x + blockIdx.x;

        return tiles * tile + (x & (tile - 1));
    }
    __device__ __forceinline__ bool more() const
    {
        return at(0) < bytes(0); /* no part is longer than part 0 */
    }
    __device__ __forceinline__ char *sent(int rank, int part) const
    {
        const uint32_t first = blockIdx.x * args.ranks * ar_ipc_slots(Coll);

        return args.peer[rank] + args.region + (uint64_t)(first + part) * slot;
    }
    __device__ __forceinline__ char *summed(int rank, int part) const
    {
        return sent(rank, args.ranks + part);
    }
    /* For all words of part ${part} in this round, call load(x, at), and then store(x, at, word)
     * with the result. The word lies at byte ${x} of the slot, and at byte ${at} of the part. A
     * thread loads ${some} words before it stores them, so that it waits for them all at once. */
    template <int some, class Load, class Store>
    __device__ __forceinline__ void each(int part, Load load, Store store) const
    {
        const uint32_t width = blockDim.x * AR_WORD;
        const uint64_t end = bytes(part);

        for (uint32_t x = threadIdx.x * AR_WORD; x < slot; x += some * width) {
            payload v[some];

#pragma unroll
            for (uint32_t i = 0; i < some; i++)
                if (x + i * width < slot && at(x + i * width) < end)
                    v[i] = load(x + i * width, at(x + i * width));
#pragma unroll
            for (uint32_t i = 0; i < some; i++)
                if (x + i * width < slot && at(x + i * width) < end)
                    store(x + i * width, at(x + i * width), v[i]);
        }
    }
};

template <int Coll> __device__ __forceinline__ void ipc_copy_in(const ipc_words<Coll> &w)
{
    const ar_args &args = w.args;

    for (int i = 0; i < w.parts; i++) {
        const int part = w.parts == 1 ? args.me : i;
        const char *const from = args.in + (w.parts == 1 ? 0 : w.first(part));
        char *const to = w.sent(args.me, part);
        const uint64_t end = w.bytes(part);

        w.template each<4>(
            part, [&](uint32_t, uint64_t at) { return load_payload(from, at, end, args.in_align); },
            [&](uint32_t x, uint64_t, payload v) { store_bulk(to + x, as_word(v)); });
    }
}

/* Add up this rank's part of the data of all ranks. In an all-reduce the sum goes to the scratch of
 * all ranks, in a reduce-scatter to recv. */
template <class R, int Coll> __device__ __forceinline__ void ipc_add(const ipc_words<Coll> &w)
{
    const ar_args &args = w.args;
    const uint64_t end = w.bytes(args.me);

    w.template each<1>(
        args.me,
        [&](uint32_t x, uint64_t) {
            return sum_of_ranks<R, 0>(
                args, [&](int r) { return as_payload(load_bulk(w.sent(r, args.me) + x)); });
        },
        [&](uint32_t x, uint64_t at, payload v) {
            if (Coll == AR_REDUCE_SCATTER)
                store_payload(args.out, at, end, args.out_align, v);
            for (int r = 0; r < args.ranks && Coll == AR_ALL_REDUCE; r++)
                store_bulk(w.summed(r, args.me) + x, as_word(v));
        });
}

/* Copy the sums of all shards from scratch to recv; in an all-gather, copy what the ranks sent. */
template <int Coll> __device__ __forceinline__ void ipc_copy_out(const ipc_words<Coll> &w)
{
    const ar_args &args = w.args;

    for (int r = 0; r < args.ranks && Coll != AR_REDUCE_SCATTER; r++) {
        const char *const from = Coll == AR_ALL_GATHER ? w.sent(r, r) : w.summed(args.me, r);
        char *const to = args.out + w.first(r);
        const uint64_t end = w.bytes(r);

        w.template each<4>(
            r, [&](uint32_t x, uint64_t) { return as_payload(load_bulk(from + x)); },
            [&](uint32_t, uint64_t at, payload v) {
                store_payload(to, at, end, args.out_align, v);
            });
    }
}

/* Called by all threads of the block: move its tiles through scratch. Returns false if the rank
 * gave up waiting. */
template <class R, int Coll>
static __device__ __noinline__ bool through_scratch(const ar_args &args, uint64_t epoch,
                                                    spin_limit &wait)
{
    bool alive = true;

    for (ipc_words<Coll> w(args); alive && w.more(); w.round++) {
        const uint64_t step = ar_flag_step(epoch, w.round + 1);

        ipc_copy_in(w);
        raise_flags(args, AR_FLAG_REDUCE, step);
        alive = await_flags(args, AR_FLAG_REDUCE, step, wait);
        if (alive && Coll != AR_ALL_GATHER)
            ipc_add<R>(w);
        if (alive && Coll == AR_ALL_GATHER)
            ipc_copy_out(w);
        if (alive) {
            raise_flags(args, AR_FLAG_GATHER, step);
            alive = await_flags(args, AR_FLAG_GATHER, step, wait);
        }
        if (alive && Coll == AR_ALL_REDUCE)
            ipc_copy_out(w);
    }
    return alive;
}

/* ---------------------------------------------------------------------------------------------- */

template <class R, int N, int Coll>
__global__ void __launch_bounds__(AR_TMA_THREADS, 1) tma_ipc(const __grid_constant__ ar_args args)
{
    AR_SHARED(shared);
    ar_args &found = *(ar_args *)(shared + AR_TMA_SHARED); /* args, plus what ipc_find() finds */
    const add_ring ring = ring_of(shared);
    const tma_tiles<Coll> tiles(args);
    /* ${last} is the block that moves the last bytes of the shard, which do not fill a word. In
     * tma_tiles these bytes are in no tile, but in ipc_words they are in one. ${last} is the block
     * of that tile: if it goes through scratch, it moves the bytes with the tile. If another block
     * had to move the bytes, nobody would move them when that block goes through scratch and the
     * block of the tile does not. */
    const uint32_t last = (uint32_t)(tiles.bytes / tiles.tile % gridDim.x);
    bool direct = false;
    spin_limit wait;

    for (uint32_t i = threadIdx.x; i < sizeof args / sizeof(uint64_t); i += blockDim.x)
        ((uint64_t *)&found)[i] = ((const uint64_t *)&args)[i];
    prepare_ring(ring);
    await_previous_kernel(args);

    call_counters counters(args);
    bool alive = ipc_enter(args, counters, wait);

    if (alive) {
        const bool misses = (int)threadIdx.x < args.ranks && !ipc_find<Coll>(found, threadIdx.x);

        direct = ipc_agree(args, counters.epoch, !__syncthreads_or(misses), &alive, wait);
    }
    if (alive && blockIdx.x == 0 && threadIdx.x == 0)
        store_relaxed(&args.mailbox->ipc[direct], ++args.ipc->calls[direct]);
    stall(args, counters.epoch, 2);
    if (alive && direct)
        move_tiles<R, N>(tiles, found_buffers<N>(found), ring, last, found);
    else if (alive)
        alive = through_scratch<R, Coll>(args, counters.epoch, wait);
    leave(args, counters, alive, wait);
}

} // namespace ar

/* The kernels of reducer ${R} for any number of ranks; FAST also has the one for 2 ranks. */
#define AR_TMA_IPC_FAST(R, coll)                                                                   \
    {                                                                                              \
        (const void *)&ar::tma_ipc<R, 0, coll>, (const void *)&ar::tma_ipc<R, 2, coll>             \
    }
#define AR_TMA_IPC_SMALL(R, coll)                                                                  \
    {                                                                                              \
        (const void *)&ar::tma_ipc<R, 0, coll>                                                     \
    }

#endif
