"""What comes of jobs: an `xarray.Dataset`, saved as a netCDF file or as a folder of Zarr chunks."""
