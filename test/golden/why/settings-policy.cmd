why allgather 64KiB --buffers sym --nccl 2.29.7 --machine h200x8 --set 'NCCL_CTA_POLICY=efficiency|ZERO' --brief
