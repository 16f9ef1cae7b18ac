// One call of the API on a connection's generic service: reads the one request, hands it to the
// method's handler, and carries answers back as bytes.
//
// Our methods are not registered with gRPC one by one, since each connection has a grpc::Server of
// its own and each registered method costs every one of them half a KiB (measured with gRPC 1.51:
// 18 of 62 KiB for our 35 methods). The price is a read more in each call.
//
// Threading: any thread. gRPC deletes a call once it has finished and its reactions are done.
#ifndef STAGELOAD_DAEMON_RPC_CALL_H_
#define STAGELOAD_DAEMON_RPC_CALL_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <mutex>

namespace stageload::rpc {

// What a server stream hears of its call.
class StreamReactions {
 public:
  virtual ~StreamReactions() = default;
  virtual void OnWriteDone(bool ok) = 0;  // the write has left us, or never will
  virtual void OnCancel() = 0;            // the caller went away; at any time, beside the others
  virtual void OnDone() = 0;              // the last one; the call is gone when it returns
};

class Call final : public grpc::ServerGenericBidiReactor {
 public:
  // Called once with the request, in a thread of gRPC: may not block. The call is finished by it or
  // by whom it hands the call to.
  using Handler = std::function<void(Call&, grpc::ByteBuffer& request)>;
  explicit Call(Handler handler);

  // Exactly one of these ends a call; Finish() is gRPC's, with a status. None while a write is
  // under way.
  void Answer(const grpc::ByteBuffer& response);
  using grpc::ServerGenericBidiReactor::Finish;

  // One message of a stream, one at a time.
  void Write(const grpc::ByteBuffer& message);

  // From the handler, before the first Write(). `stream` lives until its OnDone().
  void Bind(StreamReactions* stream);

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  Handler handler_;
  grpc::ByteBuffer message_;  // that is being read or written
  std::mutex mutex_;          // guards what follows
  StreamReactions* stream_ = nullptr;
  bool cancelled_ = false;
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_CALL_H_
