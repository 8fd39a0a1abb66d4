// Equalizes a batch of pictures, or folders of them. See README.md.
process HISTEQD {
    tag "$meta.id"
    label 'process_medium'

    container 'histeqd'

    input:
    tuple val(meta), path(pictures, stageAs: 'inbox/*')

    output:
    tuple val(meta), path("${prefix}")     , emit: pictures
    tuple val(meta), path("${prefix}.json"), emit: summary
    tuple val("${task.process}"), val('histeqd'), eval("histeqd --version | sed 's/histeqd //'"), emit: versions_histeqd, topic: versions

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    // Pictures may take half of what the task has; the rest is for codecs.
    def memory = task.memory ? "--memory ${task.memory.toMega().intdiv(2)}MiB" : ''
    prefix = task.ext.prefix ?: "${meta.id}"
    if (prefix == 'inbox') error "Pictures are staged in 'inbox'; set ext.prefix to another name"
    """
    histeqd inbox --links follow --out '${prefix}' --no-config --threads ${task.cpus} ${memory} --json ${args} > '${prefix}.json'
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir '${prefix}'
    touch '${prefix}.json'
    """
}
