// Shells, Slurm, PBS, task-spooler and pueue.
#include "client/ctl/other_words.h"

namespace stageload::ctl {

const OtherWords& WordsOfOtherTools() {
  static const auto* words = new OtherWords{
      {"add", "submit"},
      {"cat", "logs"},
      {"continue", "resume"},
      {"delete", "cancel, or clear for jobs that have ended"},
      {"edit", "update"},
      {"enqueue", "submit, or release for a job that is held"},
      {"exec", "run"},
      {"follow", "logs -f"},
      {"htop", "top"},
      {"info", "show"},
      {"jobs", "queue"},
      {"kill", "cancel"},
      {"list", "queue"},
      {"ls", "queue"},
      {"monitor", "top"},
      {"nice", "update --priority"},
      {"pause", "suspend"},
      {"pkill", "cancel"},
      {"ps", "queue"},
      {"qdel", "cancel"},
      {"qstat", "queue"},
      {"qsub", "submit"},
      {"remove", "cancel, or clear for jobs that have ended"},
      {"renice", "update --priority"},
      {"restart", "retry, or daemon restart"},
      {"rm", "cancel, or clear for jobs that have ended"},
      {"sacct", "queue --all, or history"},
      {"salloc", "guard"},
      {"sbatch", "submit"},
      {"scancel", "cancel"},
      {"scontrol", "show, update, hold or release"},
      {"sinfo", "status"},
      {"squeue", "queue"},
      {"srun", "run"},
      {"sstat", "show"},
      {"start", "submit, or daemon start"},
      {"stash", "hold"},
      {"stop", "cancel, or daemon stop"},
      {"tail", "logs -f"},
      {"ts", "submit"},
      {"tsp", "submit"},
  };
  return *words;
}

}  // namespace stageload::ctl
