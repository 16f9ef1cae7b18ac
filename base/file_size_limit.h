// A write beyond the largest file that a process may make (ulimit -f), as an error of that write
// and not the end of the program: SIGXFSZ is ignored.
//
// Threading: before any other thread; the last also after a fork.
#ifndef STAGELOAD_BASE_FILE_SIZE_LIMIT_H_
#define STAGELOAD_BASE_FILE_SIZE_LIMIT_H_

namespace stageload {

// From here on write(2) says EFBIG.
void TakeFileTooLargeAsError();
// As this process was started, for a program that is executed in place of this one.
void RestoreFileTooLarge();

}  // namespace stageload

#endif  // STAGELOAD_BASE_FILE_SIZE_LIMIT_H_
