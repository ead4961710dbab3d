// Streams and events. An event that is recorded in a capture is part of the recording.

#include "state.h"

using namespace stand_in;

API cuStreamCreate(void** handle, unsigned) {
  ENTER_CONTEXT(cuStreamCreate);
  *handle = new_handle();
  streams[*handle] = std::make_shared<Stream>();
  return SUCCESS;
}
API cuStreamDestroy_v2(void* handle) {
  ENTER_GIVING_BACK(cuStreamDestroy_v2);
  auto* stream = find(streams, handle);
  if (stream == nullptr) { violation("a stream destroyed twice"); return INVALID_HANDLE; }
  if ((*stream)->capture) violation("a stream destroyed while it is captured");
  run_all(**stream);
  streams.erase(handle);
  return told;
}
API cuStreamSynchronize(void* handle) {
  ENTER_CONTEXT(cuStreamSynchronize);
  auto* stream = find(streams, handle);
  if (stream == nullptr) return INVALID_HANDLE;
  if ((*stream)->capture) return CAPTURE_UNSUPPORTED;
  run_all(**stream);
  return sticky;
}
API cuStreamQuery(void* handle) {
  ENTER_CONTEXT(cuStreamQuery);
  auto* stream = find(streams, handle);
  if (stream == nullptr) return INVALID_HANDLE;
  if ((*stream)->capture) return CAPTURE_UNSUPPORTED;
  if ((*stream)->queue.empty()) return SUCCESS;
  run_all(**stream);
  return sticky != 0 ? sticky : NOT_READY;
}
// An event of a capture takes a stream into that capture, behind what was recorded before it.
API cuStreamWaitEvent(void* handle, void* event_handle, unsigned) {
  ENTER_CONTEXT(cuStreamWaitEvent);
  auto* found = find(streams, handle);
  auto* event = find(events, event_handle);
  if (found == nullptr || event == nullptr) return INVALID_HANDLE;
  Stream& stream = **found;
  if ((*event)->is_captured) {
    std::shared_ptr<Capture> capture = (*event)->capture.lock();
    if (capture == nullptr) return CAPTURED_EVENT;
    if (stream.capture != nullptr && stream.capture != capture) return CAPTURE_MERGE;
    if (stream.capture == nullptr) stream.tail.clear();
    stream.capture = capture;
    stream.tail.insert(stream.tail.end(), (*event)->nodes.begin(), (*event)->nodes.end());
    return SUCCESS;
  }
  if (stream.capture) return CAPTURE_ISOLATION;
  std::shared_ptr<Stream> other = (*event)->stream;
  unsigned long ticket = (*event)->ticket;
  if (other) submit(stream, {[=] { run_until(*other, ticket); }});
  return SUCCESS;
}
API cuEventCreate(void** handle, unsigned flags) {
  ENTER_CONTEXT(cuEventCreate, (flags & 2) != 0 ? "untimed" : "timed");
  *handle = new_handle();
  events[*handle] = std::make_unique<Event>();
  events[*handle]->is_timed = (flags & 2) == 0;
  return SUCCESS;
}
API cuEventDestroy_v2(void* handle) {
  ENTER_GIVING_BACK(cuEventDestroy_v2);
  if (events.erase(handle) == 0) { violation("an event destroyed twice"); return INVALID_HANDLE; }
  return told;
}
API cuEventRecord(void* handle, void* stream_handle) {
  ENTER_CONTEXT(cuEventRecord);
  auto* found = find(streams, stream_handle);
  auto* event = find(events, handle);
  if (found == nullptr || event == nullptr) return INVALID_HANDLE;
  Stream& stream = **found;
  bool is_timed = (*event)->is_timed;
  **event = Event{};
  (*event)->is_timed = is_timed;
  if (stream.capture) {
    (*event)->is_captured = true;
    (*event)->capture = stream.capture;
    (*event)->nodes = stream.tail;
    return SUCCESS;
  }
  auto time = std::make_shared<Clock::time_point>();
  submit(stream, {[=] { *time = Clock::now(); }});
  (*event)->stream = *found;
  (*event)->ticket = stream.n_queued;
  (*event)->time = time;
  return SUCCESS;
}
API cuEventSynchronize(void* handle) {
  ENTER_CONTEXT(cuEventSynchronize);
  auto* event = find(events, handle);
  if (event == nullptr) return INVALID_HANDLE;
  if ((*event)->is_captured) return CAPTURED_EVENT;
  if ((*event)->stream) run_until(*(*event)->stream, (*event)->ticket);
  return sticky;
}
API cuEventQuery(void* handle) {
  ENTER_CONTEXT(cuEventQuery);
  auto* event = find(events, handle);
  if (event == nullptr) return INVALID_HANDLE;
  if ((*event)->is_captured) return CAPTURED_EVENT;
  if (!(*event)->stream || (*event)->stream->n_done >= (*event)->ticket) return SUCCESS;
  run_until(*(*event)->stream, (*event)->ticket);
  return sticky != 0 ? sticky : NOT_READY;
}
static Result elapsed(float* ms, void* from, void* to) {
  auto* first = find(events, from);
  auto* last = find(events, to);
  if (first == nullptr || last == nullptr) return INVALID_HANDLE;
  for (Event* event : {first->get(), last->get()}) {
    if (!event->is_timed || !event->stream) return INVALID_HANDLE;
    if (event->stream->n_done < event->ticket) return NOT_READY;
  }
  *ms = std::chrono::duration<float, std::milli>(*(*last)->time - *(*first)->time).count();
  return SUCCESS;
}
API cuEventElapsedTime(float* ms, void* from, void* to) {
  ENTER_CONTEXT(cuEventElapsedTime);
  return elapsed(ms, from, to);
}
#ifndef STAND_IN_OLD_DRIVER
API cuEventElapsedTime_v2(float* ms, void* from, void* to) {
  ENTER_CONTEXT(cuEventElapsedTime_v2);
  return elapsed(ms, from, to);
}
#endif
