# Completion of stageloadctl for bash 3.2 and newer; `stageloadctl completion bash` prints it.
# What may come next is asked of the program itself.

_stageloadctl() {
  local line=${COMP_LINE:0:COMP_POINT} words=() starts=() last=-1 i word
  # Bash cuts words at "=" and ":"; the program gets them whole, up to the cursor.
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if ((i == 0)) || [[ $line == [[:blank:]]* ]]; then
      words[++last]= starts[last]=$i
      line=${line#"${line%%[![:blank:]]*}"}
    fi
    ((i < COMP_CWORD)) || word=$line
    words[last]+=$word
    line=${line#"$word"}
  done
  local program=${words[0]/#\~/$HOME} reply
  type -P "$program" >/dev/null || program=stageloadctl
  reply=$("$program" complete-words -- "${words[@]:1}" 2>/dev/null)

  COMPREPLY=()
  case ${reply%%$'\n'*} in
    files) _stageloadctl_system default -f "$2" ;;
    folders) _stageloadctl_system dirnames -d "$2" ;;
    command\ *)
      i=${reply%%$'\n'*}
      _stageloadctl_command "${starts[${i#command } + 1]}" "$2"
      ;;
    words) _stageloadctl_candidates "${words[last]%"$2"}" <<<"$reply" ;;
  esac
}

# What bash completes by itself: by an option of this completion, or (bash 3.2 has none) by a list.
_stageloadctl_system() {
  local word
  compopt -o "$1" 2>/dev/null && return
  while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen "$2" -- "$3")
}

# The user's own command line, which begins at word $1 of COMP_WORDS.
_stageloadctl_command() {
  local word
  if declare -F _comp_command_offset >/dev/null; then
    _comp_command_offset "$1"
  elif declare -F _command_offset >/dev/null; then
    _command_offset "$1"
  elif (($1 == COMP_CWORD)) && [[ $2 != */* ]]; then
    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -c -- "$2")
  else
    _stageloadctl_system default -f "$2"
  fi
}

# Bash wants what follows $1, which is in the line already.
_stageloadctl_candidates() {
  local word
  compopt -o nosort 2>/dev/null # the newest job first
  read -r word
  while IFS=$'\t' read -r word _; do
    word=${word#"$1"}
    [[ $word != *[!A-Za-z0-9_,.:=/@%+-]* ]] || printf -v word %q "$word"
    COMPREPLY+=("$word")
  done
}

complete -F _stageloadctl stageloadctl stageload
