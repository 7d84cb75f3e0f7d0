#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gemms.sh BUILD - checks the GEMMs of "symtuner tune --beside" on one GPU (gemms.c): is the product
# right, and how much time do copies add to the GEMMs? Exit 77: no GPU or no cuBLAS here.
. test/gpu/common.sh
need_gpus 1
need_built gemms
exec "$build/gemms"
