# Completion of stageloadctl for fish; `stageloadctl completion fish` prints it.
# What may come next is asked of the program itself.

function __stageloadctl_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l program (string replace -r '^~' "$HOME" -- $before[1])
    set -e before[1]
    type -q -- $program; or set program stageloadctl
    set -l lines (command $program complete-words -- $before "$current" 2>/dev/null)
    set -l next $lines[1]
    set -e lines[1]

    # "--output=" of "--output=fi": fish completes what follows it.
    set -l option (string match -r -- '^--[^=]*=' "$current")
    set -l value (string replace -r -- '^--[^=]*=' '' "$current")
    switch "$next"
        case files
            for file in (__fish_complete_path "$value")
                echo -- "$option$file"
            end
        case folders
            for folder in (__fish_complete_directories "$value")
                echo -- "$option$folder"
            end
        case 'command *'
            # The user's own command line.
            set -l own
            set -l first (math (string replace 'command ' '' -- $next) + 1)
            if test $first -le (count $before)
                set own (string escape -- $before[$first..-1])
            end
            complete -C (string join ' ' -- $own "$current")
        case words
            string join \n -- $lines
    end
end

for program in stageloadctl stageload
    complete -c $program -e
    complete -c $program -k -f -a '(__stageloadctl_complete)'
end
