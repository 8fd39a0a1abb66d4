// A kernel that fails, for the tests of what becomes of the pictures then.

extern "C" __global__ void trap() { __trap(); }
