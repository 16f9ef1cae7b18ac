// Every program of ours calls this first.
//
// Threading: before any other thread.
#ifndef STAGELOAD_BASE_STANDARD_STREAMS_H_
#define STAGELOAD_BASE_STANDARD_STREAMS_H_

namespace stageload {

// Opens /dev/null in place of a standard stream that the caller left closed, so that no socket or
// file of ours gets descriptor 0, 1 or 2 and is written to as if it were the terminal. What is
// written to a standard output that was closed fails as if it still were: a command whose answer
// nobody can have has not worked.
void OpenStandardStreams();

}  // namespace stageload

#endif  // STAGELOAD_BASE_STANDARD_STREAMS_H_
