# SPDX-License-Identifier: Apache-2.0
# Prints the recorded decisions that `make demo` shows (README.md).
NR == 1 { print; next }
# two GPUs, both buffers in symmetric windows: what the built-in NCCL_MIN_CTAS changes
$2 == "h200x2" && $1 == "2.28.9" && $7 == 0 && $5 == 2 && $6 == 1 && $15 == 1 && $16 == 0 &&
$49 == 0 && $50 == "threads" && $9 == "f32" && ($10 == "sum" || $10 == "") && $13 == "sym" &&
$14 == "sym" && $17 ~ /^(|NCCL_MIN_CTAS=16)$/ && $8 ~ /^(AllReduce|AllGather|ReduceScatter)$/ &&
$12 ~ /^(256|4096|16384|65536|1048576|16777216|268435456)$/ { print; next }
$2 != "h200x8" || $7 != 0 || $5 != 8 || $6 != 1 { next }   # machine, multicast, ranks, nodes
$15 != 1 || $16 != 0 || $49 != 0 || $50 != "threads" { next }
$12 !~ /^(256|4096|16384|65536|262144|1048576|4194304|16777216|67108864|268435456)$/ { next }
# both buffers in symmetric windows, alone and with more CTAs
$9 == "f32" && ($10 == "sum" || $10 == "") && $13 == "sym" && $14 == "sym" &&
$17 ~ /^(|NCCL_SYM_CTAS=16|NCCL_SYM_CTAS=32)$/ && $8 ~ /^(AllReduce|AllGather|ReduceScatter)$/
# unregistered
$8 == "AllReduce" && $9 == "f32" && $10 == "sum" && $13 == "none" && $14 == "none" && $17 == ""
# registered, but no symmetric kernel exists
$8 == "AllReduce" && $9 == "i32" && $10 == "max" && $13 == "sym" && $14 == "sym" && $17 == ""
