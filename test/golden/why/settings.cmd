why allgather 64KiB --buffers sym --nccl 2.29.7 --machine h200x8 --set NCCL_SYM_CTAS=16 --set NCCL_NVLS_ENABLE=0 --set 'NCCL_CTA_POLICY=EFFICIENCY'
