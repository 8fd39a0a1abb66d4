// A kernel that fails, to test the handling of its pictures.

extern "C" __global__ void trap() { __trap(); }
