/// A library that says it is NCCL and has nothing else, for tests of what strata says then.
extern "C" __attribute__((visibility("default"))) int ncclGetVersion(int* version) {
  *version = 22000;
  return 0;
}
