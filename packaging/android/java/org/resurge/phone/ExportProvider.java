package org.resurge.phone;

import android.content.ContentProvider;
import android.content.ContentValues;
import android.database.Cursor;
import android.database.MatrixCursor;
import android.net.Uri;
import android.os.ParcelFileDescriptor;
import android.provider.OpenableColumns;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;

/**
 * Lets the app that a person shares an export with read that one file. Not exported: only a grant that travels with
 * the share opens it, and only files that lie directly in the `shared` folder.
 */
public final class ExportProvider extends ContentProvider {
    private File file(Uri uri) throws FileNotFoundException {
        try {
            File folder = new File(getContext().getFilesDir(), "shared").getCanonicalFile();
            File file = new File(folder, String.valueOf(uri.getLastPathSegment())).getCanonicalFile();
            if (folder.equals(file.getParentFile()) && file.isFile()) {
                return file;
            }
        } catch (IOException error) {
            // fall through: not there is all a stranger learns
        }
        throw new FileNotFoundException("no such export");
    }

    @Override
    public boolean onCreate() {
        return true;
    }

    @Override
    public ParcelFileDescriptor openFile(Uri uri, String mode) throws FileNotFoundException {
        if (!"r".equals(mode)) {
            throw new FileNotFoundException("exports are read only");
        }
        return ParcelFileDescriptor.open(file(uri), ParcelFileDescriptor.MODE_READ_ONLY);
    }

    @Override
    public Cursor query(Uri uri, String[] projection, String selection, String[] arguments, String order) {
        MatrixCursor cursor = new MatrixCursor(new String[] {OpenableColumns.DISPLAY_NAME, OpenableColumns.SIZE}, 1);
        try {
            File file = file(uri);
            cursor.addRow(new Object[] {file.getName(), file.length()});
        } catch (FileNotFoundException error) {
            // an empty answer
        }
        return cursor;
    }

    @Override
    public String getType(Uri uri) {
        String name = String.valueOf(uri.getLastPathSegment());
        return name.endsWith(".csv")
                ? "text/csv"
                : name.endsWith(".gpx")
                        ? "application/gpx+xml"
                        : name.endsWith(".txt") ? "text/plain" : "application/zip";
    }

    @Override
    public Uri insert(Uri uri, ContentValues values) {
        throw new UnsupportedOperationException("exports are read only");
    }

    @Override
    public int delete(Uri uri, String selection, String[] arguments) {
        throw new UnsupportedOperationException("exports are read only");
    }

    @Override
    public int update(Uri uri, ContentValues values, String selection, String[] arguments) {
        throw new UnsupportedOperationException("exports are read only");
    }
}
