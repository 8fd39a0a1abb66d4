#!/usr/bin/env python3
"""Writes Grafana's dashboard from the list of panels below: make-dashboard.py > dashboard.json"""
import json

PANELS = [  # title, unit, width of 24, queries with their legends
    ('Pictures done a minute', 'short', 12, [('sum by (instance, device) (rate(histeqd_pictures_total{result="done"}[$__rate_interval])) * 60', '{{instance}} {{device}}')]),
    ('Failed, skipped and retried a minute', 'short', 12, [('sum by (instance, result) (rate(histeqd_pictures_total{result!="done"}[$__rate_interval])) * 60', '{{instance}} {{result}}')]),
    ('Megapixels a second', 'short', 8, [('sum by (instance, device) (rate(histeqd_pixels_total[$__rate_interval])) / 1e6', '{{instance}} {{device}}')]),
    ('Bytes read and written a second', 'Bps', 8, [('sum by (instance) (rate(histeqd_input_bytes_total[$__rate_interval]))', '{{instance}} read'),
                                                   ('sum by (instance) (rate(histeqd_output_bytes_total[$__rate_interval]))', '{{instance}} written')]),
    ('Files not yet finished', 'short', 8, [('sum by (instance, phase) (histeqd_files)', '{{instance}} {{phase}}')]),
    ('Time of a picture', 's', 12, [('histogram_quantile(0.5, sum by (le, instance) (rate(histeqd_picture_seconds_bucket[$__rate_interval])))', '{{instance}} median'),
                                    ('histogram_quantile(0.99, sum by (le, instance) (rate(histeqd_picture_seconds_bucket[$__rate_interval])))', '{{instance}} 99 %')]),
    ('Seconds in each stage, a second', 's', 12, [('sum by (instance, stage) (rate(histeqd_stage_seconds_sum[$__rate_interval]))', '{{instance}} {{stage}}')]),
    ('GPUs busy', 'percentunit', 8, [('rate(histeqd_device_busy_seconds_total[$__rate_interval])', '{{instance}} {{device}}')]),
    ('Memory of pictures', 'bytes', 8, [('histeqd_picture_memory_bytes', '{{instance}}'), ('histeqd_picture_memory_limit_bytes', '{{instance}} limit')]),
    ('Devices that work', 'short', 8, [('histeqd_device_up', '{{instance}} {{device}}')]),
]
HEIGHT = 8


def panel(number, title, unit, width, queries, x, y):
    source = {'type': 'prometheus', 'uid': 'prometheus'}
    targets = [{'datasource': source, 'refId': chr(65 + place), 'expr': query, 'legendFormat': legend}
               for place, (query, legend) in enumerate(queries)]
    return {'id': number, 'type': 'timeseries', 'title': title, 'datasource': source, 'targets': targets,
            'gridPos': {'x': x, 'y': y, 'w': width, 'h': HEIGHT},
            'fieldConfig': {'defaults': {'unit': unit, 'min': 0}, 'overrides': []}}


panels, x, y = [], 0, 0
for number, (title, unit, width, queries) in enumerate(PANELS, 1):
    if x + width > 24:
        x, y = 0, y + HEIGHT
    panels.append(panel(number, title, unit, width, queries, x, y))
    x += width
print(json.dumps({'title': 'histeqd', 'uid': 'histeqd', 'schemaVersion': 39, 'refresh': '30s', 'editable': True,
                  'time': {'from': 'now-6h', 'to': 'now'}, 'tags': ['histeqd'], 'panels': panels}, indent=1))
