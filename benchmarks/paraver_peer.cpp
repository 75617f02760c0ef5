// What Paraver's own parser reads in a .prv: of each kind of record how many, and their sums.
//
// Built by export_judges.py with utils/traceparser of bsc-performance-tools/paraver-kernel on the
// include path. The parser complains on stderr of each line that it cannot read.

#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <unordered_set>
#include <vector>

using std::string;

#include "tracetypes.h"
#include "processmodel.h"
#include "resourcemodel.h"
#include "traceheader.h"
#include "tracebodyio_v1.h"

struct Metadata {
  void NewMetadata(const string &) {}
};

// Only the parser's writer, which nothing calls here, asks a record anything.
struct Record {
  TRecordType getRecordType() const { return 0; }
  TThreadOrder getThread() const { return 0; }
  TCPUOrder getCPU() const { return 0; }
  TRecordTime getTime() const { return 0; }
  TEventType getEventType() const { return 0; }
  TEventValue getEventValue() const { return 0; }
  TEventValue getEventValueAsIs() const { return 0; }
  TState getState() const { return 0; }
  TRecordTime getStateEndTime() const { return 0; }
  TThreadOrder getReceiverThread() const { return 0; }
  TCPUOrder getReceiverCPU() const { return 0; }
  TRecordTime getPhysicalSend() const { return 0; }
  TRecordTime getLogicalReceive() const { return 0; }
  TRecordTime getPhysicalReceive() const { return 0; }
  TCommSize getCommSize() const { return 0; }
  TCommTag getCommTag() const { return 0; }
};

// The container that the parser fills: it keeps sums alone.
struct Sums {
  long states = 0, events = 0, messages = 0, bytes = 0;
  double state_ns = 0, message_ns = 0, at = 0, sent = 0;
  bool begins = false;
  void newRecord(TThreadOrder) {}
  void newComm(TThreadOrder, TThreadOrder) { ++messages; }
  void setRecordType(TRecordType type) {
    begins = type == STATE + BEGIN;
    states += begins;
    events += type == EVENT;
  }
  void setTime(TRecordTime time) { at = time; }
  void setStateEndTime(TRecordTime end) { if (begins) state_ns += end - at; }
  void setPhysicalSend(TRecordTime time) { sent = time; }
  void setPhysicalReceive(TRecordTime time) { message_ns += time - sent; }
  void setCommSize(TCommSize size) { bytes += size; }
  void setCPU(TCPUOrder) {}
  void setThread(TThreadOrder) {}
  void setState(TState) {}
  void setEventType(TEventType) {}
  void setEventValue(TEventValue) {}
  void setSenderCPU(TCPUOrder) {}
  void setSenderThread(TThreadOrder) {}
  void setReceiverCPU(TCPUOrder) {}
  void setReceiverThread(TThreadOrder) {}
  void setLogicalSend(TRecordTime) {}
  void setLogicalReceive(TRecordTime) {}
  void setCommTag(TCommTag) {}
};

int main(int, char **argv) {
  std::fstream file(argv[1], std::ios::in);
  string date;
  TTimeUnit unit;
  TRecordTime end = 0;
  ResourceModel<> resources;
  ProcessModel<> processes;
  std::vector<string> communicators;
  parseTraceHeader(file, date, unit, end, resources, processes, communicators);

  using Body = TraceBodyIO_v1<std::fstream, Sums, ProcessModel<>, ResourceModel<>, TState,
                              TEventType, Metadata, TRecordTime, Record>;
  Body body;
  Sums sums;
  Metadata metadata;
  std::unordered_set<TState> states;
  std::unordered_set<TEventType> events;
  while (!file.eof())
    body.read(file, sums, processes, resources, states, events, metadata, end);
  std::printf("%ld %.0f %ld %ld %ld %.0f\n", sums.states, sums.state_ns, sums.events,
              sums.messages, sums.bytes, sums.message_ns);
}
