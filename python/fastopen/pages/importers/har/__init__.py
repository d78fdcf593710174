"""HAR 1.2 recordings into pages, with what each maker adds.

The specification: http://www.softwareishard.com/blog/har-12-spec/
"""
