// The structs and constants of macOS that the reader of a Mac uses. On macOS they are the system's
// own; anywhere else they are stand-ins of the same names and layout, so that the tests run the
// same source files on Linux. What both must agree on is asserted at the end, and a cross compile
// for macOS checks it against the real headers.
//
// Threading: plain values.
#ifndef STAGELOAD_DAEMON_HOST_DARWIN_KERNEL_H_
#define STAGELOAD_DAEMON_HOST_DARWIN_KERNEL_H_

#include <sys/resource.h>
#include <sys/time.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#ifdef __APPLE__

#include <libproc.h>
#include <mach/mach.h>
#include <mach/mach_time.h>
#include <sys/proc.h>
#include <sys/sysctl.h>

#else

using kern_return_t = int;
using mach_port_t = unsigned int;
using natural_t = unsigned int;
using integer_t = int;
using mach_msg_type_number_t = unsigned int;
using rusage_info_t = void*;

inline constexpr int CTL_KERN = 1;
inline constexpr int KERN_ARGMAX = 8;
inline constexpr int KERN_PROC = 14;
inline constexpr int KERN_PROC_ALL = 0;
inline constexpr int KERN_PROC_PID = 1;
inline constexpr int KERN_PROCARGS2 = 49;
inline constexpr int EPROC_SLEADER = 2;
inline constexpr int SIDL = 1;
inline constexpr int SRUN = 2;
inline constexpr int SSLEEP = 3;
inline constexpr int SSTOP = 4;
inline constexpr int SZOMB = 5;
inline constexpr int RUSAGE_INFO_V4 = 4;
inline constexpr int HOST_VM_INFO64 = 4;
inline constexpr int TASK_VM_INFO = 22;
inline constexpr kern_return_t KERN_SUCCESS = 0;
inline constexpr kern_return_t KERN_FAILURE = 5;
inline constexpr mach_port_t MACH_PORT_NULL = 0;
inline constexpr mach_port_t MACH_PORT_DEAD = 0xffffffff;

struct xsw_usage {
  std::uint64_t xsu_total, xsu_avail, xsu_used;
  std::uint32_t xsu_pagesize;
  int xsu_encrypted;
};

struct extern_proc {
  timeval p_starttime;
  char unused1[20];
  char p_stat;
  pid_t p_pid;
  char unused2[199];
  char p_comm[17];
  char unused3[36];
};
struct kinfo_proc {
  extern_proc kp_proc;
  struct eproc {
    char unused1[120];
    struct _ucred {
      std::int32_t cr_ref;
      uid_t cr_uid;
      char unused[68];
    } e_ucred;
    char unused2[68];
    pid_t e_ppid, e_pgid;
    char unused3[44];
    std::int32_t e_flag;
    char unused4[32];
  } kp_eproc;
};

struct rusage_info_v4 {
  char unused1[72];
  std::uint64_t ri_phys_footprint;
  std::uint64_t ri_proc_start_abstime, ri_proc_exit_abstime;
  char unused2[200];
};

struct vm_statistics64 {
  natural_t free_count, active_count, inactive_count, wire_count;
  char unused1[96];
  std::uint64_t swapins, swapouts;
  natural_t compressor_page_count;
  char unused2[20];
};
inline constexpr mach_msg_type_number_t HOST_VM_INFO64_COUNT =
    sizeof(vm_statistics64) / sizeof(integer_t);

struct task_vm_info {
  char unused1[120];
  std::uint64_t compressed, compressed_peak, compressed_lifetime, phys_footprint;
  char unused2[216];
};

struct mach_timebase_info_data_t {
  std::uint32_t numer, denom;
};

#endif  // __APPLE__

namespace stageload::host {

// bsd/sys/proc_info_private.h of xnu, which no SDK has but which calls itself API: flavour
// PROC_PIDUNIQIDENTIFIERINFO of proc_pidinfo. Of any user's process.
inline constexpr int kProcPidUniqIdentifierInfo = 17;
struct UniqueIdentifiers {
  std::uint8_t executable_uuid[16];
  std::uint64_t p_uniqueid;   // of no other process of this boot; kept over exec
  std::uint64_t p_puniqueid;  // its parent's at the fork; kept when it is given a new parent
  std::int32_t p_idversion;   // another one after each exec
  std::int32_t p_orig_ppidversion;
  std::uint64_t reserved[2];
};

}  // namespace stageload::host

static_assert(CTL_KERN == 1 && KERN_ARGMAX == 8 && KERN_PROC == 14 && KERN_PROC_ALL == 0 &&
              KERN_PROC_PID == 1 && KERN_PROCARGS2 == 49);
static_assert(EPROC_SLEADER == 2 && SIDL == 1 && SRUN == 2 && SSLEEP == 3 && SSTOP == 4 &&
              SZOMB == 5);
static_assert(RUSAGE_INFO_V4 == 4 && HOST_VM_INFO64 == 4 && TASK_VM_INFO == 22);
static_assert(KERN_SUCCESS == 0 && KERN_FAILURE == 5 && MACH_PORT_NULL == 0 &&
              MACH_PORT_DEAD == 0xffffffff);
static_assert(sizeof(xsw_usage) == 32 && offsetof(xsw_usage, xsu_used) == 16);
static_assert(sizeof(kinfo_proc) == 648 && offsetof(kinfo_proc, kp_eproc) == 296);
static_assert(sizeof(timeval) == 16 && offsetof(extern_proc, p_starttime) == 0);
static_assert(offsetof(extern_proc, p_stat) == 36 && offsetof(extern_proc, p_pid) == 40 &&
              offsetof(extern_proc, p_comm) == 243 && sizeof(extern_proc::p_comm) == 17);
static_assert(offsetof(kinfo_proc, kp_eproc.e_ucred) == 416 &&
              offsetof(kinfo_proc, kp_eproc.e_ucred.cr_uid) == 420);
static_assert(offsetof(kinfo_proc, kp_eproc.e_ppid) == 560 &&
              offsetof(kinfo_proc, kp_eproc.e_pgid) == 564 &&
              offsetof(kinfo_proc, kp_eproc.e_flag) == 612);
static_assert(sizeof(rusage_info_v4) == 296 && offsetof(rusage_info_v4, ri_phys_footprint) == 72 &&
              offsetof(rusage_info_v4, ri_proc_exit_abstime) == 88);
// These two grow with newer systems, at their end.
static_assert(sizeof(vm_statistics64) >= 152 && offsetof(vm_statistics64, wire_count) == 12 &&
              offsetof(vm_statistics64, swapins) == 112 &&
              offsetof(vm_statistics64, swapouts) == 120 &&
              offsetof(vm_statistics64, compressor_page_count) == 128);
static_assert(sizeof(task_vm_info) >= 152 && offsetof(task_vm_info, compressed) == 120 &&
              offsetof(task_vm_info, phys_footprint) == 144);
static_assert(sizeof(mach_timebase_info_data_t) == 8);
static_assert(sizeof(stageload::host::UniqueIdentifiers) == 56);

#endif  // STAGELOAD_DAEMON_HOST_DARWIN_KERNEL_H_
