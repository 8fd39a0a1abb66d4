// A kernel that fails, to test what happens to the pictures then.

extern "C" __global__ void trap() { __trap(); }
