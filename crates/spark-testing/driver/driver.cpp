// A stand-in CUDA driver: the functions that spark-mem and spark-hal call, in host memory.
//
//   personas       a GB10, an H200, a Jetson Orin, an A100: personas.cpp
//   memory         "device" memory lies in pages that only running work may touch: a host
//                  that dereferences it faults, on every persona. Managed memory too, while
//                  a kernel is queued, where only one side at a time may use it
//   streams        work waits in a queue until something waits for it, so that a missing
//                  wait shows as old data
//   kernels        PTX, by the interpreter; or the host-compiled .cu files, run by fibers.cpp
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
  std::snprintf(name, static_cast<std::size_t>(room), "%s", name_of(persona()));
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
  *bytes = total_bytes_of(persona());
  return SUCCESS;
}
API cuDeviceGetAttribute(int* value, int number, int) {
  ENTER(cuDeviceGetAttribute, std::to_string(number));
  *value = attribute(number);
#ifdef STAND_IN_OLD_DRIVER
  if (number == MEMORY_POOLS) *value = 0;
#endif
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
