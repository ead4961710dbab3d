// A stand-in CUDA driver: the functions that spark-mem and spark-hal call, in host memory.
//
//   persona SPARK  a GB10: integrated, cc 12.1, plain memory and managed memory shared
//   persona CARD   a discrete card, cc 9.0: nothing shared but pinned memory
//   memory         "device" memory lies in pages that only running work may touch: a host
//                  that dereferences it faults, on either persona
//   streams        work waits in a queue until something waits for it, so that a missing
//                  wait shows as old data
//   kernels        the host-compiled .cu files, run by fibers.cpp
//
// state.h says which file has what.
//
// Broken rules (memory freed twice, a copy outside an allocation, a write past the end) are
// written down as violations. Types and numbers are those of cuda.h, CUDA 13.0. It computes
// correctly and slowly; it is never installed anywhere and only tests open it.

#include <cstdio>

#include "state.h"

using namespace stand_in;

// --- start and devices ---------------------------------------------------------------------

API cuInit(unsigned) { ENTER(cuInit); return SUCCESS; }
API cuDriverGetVersion(int* version) {
  ENTER(cuDriverGetVersion);
  *version = driver_version();
  return SUCCESS;
}
API cuDeviceGetCount(int* count) { ENTER(cuDeviceGetCount); *count = 1; return SUCCESS; }
API cuDeviceGet(int* device, int ordinal) {
  ENTER(cuDeviceGet);
  if (ordinal != 0) return INVALID_DEVICE;
  *device = 0;
  return SUCCESS;
}
API cuDeviceGetName(char* name, int room, int) {
  ENTER(cuDeviceGetName);
  std::snprintf(name, static_cast<std::size_t>(room), "%s", persona() == SPARK ? "NVIDIA GB10" : "NVIDIA H100 stand-in");
  return SUCCESS;
}
API cuDeviceGetUuid_v2(unsigned char* uuid, int) {
  ENTER(cuDeviceGetUuid_v2);
  std::memset(uuid, 0x5A, 16);
  return SUCCESS;
}
API cuDeviceGetPCIBusId(char* text, int room, int) {
  ENTER(cuDeviceGetPCIBusId);
  std::snprintf(text, static_cast<std::size_t>(room), "000F:01:00.0");
  return SUCCESS;
}
API cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  ENTER(cuDeviceTotalMem_v2);
  *bytes = TOTAL_BYTES[persona()];
  return SUCCESS;
}
API cuDeviceGetAttribute(int* value, int attribute, int) {
  ENTER(cuDeviceGetAttribute, std::to_string(attribute));
  bool is_spark = persona() == SPARK;
  switch (attribute) {
    case 8: *value = 49152; break;                       // shared memory per block
    case 16: *value = is_spark ? 48 : 132; break;         // multiprocessors
    case 18: *value = is_spark; break;                    // integrated
    case 19: case 41: case 99: *value = 1; break;
#ifndef STAND_IN_OLD_DRIVER
    case 115: *value = 1; break;                          // memory pools
#endif
    case 38: *value = is_spark ? 25165824 : 52428800; break;
    case 39: *value = is_spark ? 1536 : 2048; break;
    case 75: *value = is_spark ? 12 : 9; break;           // compute capability
    case 76: *value = is_spark ? 1 : 0; break;
    case 83: case 89: *value = 1; break;                  // managed memory, used by both at once
    case 88: case 100: *value = is_spark; break;          // plain memory, the CPU's page tables
    case 97: *value = is_spark ? 101376 : 232448; break;
    default: *value = 0;
  }
  return SUCCESS;
}

// --- context -------------------------------------------------------------------------------

API cuDevicePrimaryCtxRetain(void** context, int) {
  ENTER(cuDevicePrimaryCtxRetain);
  ++context_count;
  *context = context_handle();
  return SUCCESS;
}
API cuDevicePrimaryCtxRelease_v2(int) {
  std::lock_guard<std::mutex> guard(lock);
  Result told = enter("cuDevicePrimaryCtxRelease_v2");
  if (context_count == 0) return INVALID_CONTEXT;
  if (--context_count == 0) {
    run_everything();
    // A context that failed takes everything with it; otherwise what is left is a leak.
    if (sticky != 0) forget_driver_state();
  }
  return told;
}
API cuCtxGetCurrent(void** context) { ENTER(cuCtxGetCurrent); *context = current_context; return SUCCESS; }
API cuCtxSetCurrent(void* context) { ENTER(cuCtxSetCurrent); current_context = context; return SUCCESS; }
API cuCtxSynchronize() { ENTER_CONTEXT(cuCtxSynchronize); run_everything(); return sticky; }
