// An older stand-in NVRTC, of CUDA 12.4: everything else is that of compiler.cpp.

#include <cstring>

#define API extern "C" __attribute__((visibility("default"))) int

extern "C" int stand_in_enter(const char* call);

API nvrtcVersion(int* major, int* minor) {
  if (stand_in_enter("nvrtcVersion 12") != 0) return 11;
  *major = 12;
  *minor = 4;
  return 0;
}
API nvrtcGetNumSupportedArchs(int* n) { *n = 14; return 0; }
API nvrtcGetSupportedArchs(int* archs) {
  static const int ALL[] = {50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90};
  std::memcpy(archs, ALL, sizeof ALL);
  return 0;
}
